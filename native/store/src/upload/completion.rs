//! Completing an upload: the request that makes the object appear.

use std::mem;
use std::sync::Arc;

use md5::{Digest, Md5};
use object_store::multipart::{MultipartStore, PartId};
use object_store::{PutMode, PutPayload};

use super::session::{Session, is_gone};
use super::{Upload, UploadReport, exists};
use crate::address::Service;
use crate::object_store_error::{Failure, FailureKind};
use crate::{Error, Object, Result, http_client, object};

impl Upload {
    /// Sends an object of at most one part.
    pub(super) fn put_whole(mut self) -> Result<UploadReport> {
        if let Some(entries) = self.unfinished.take() {
            self.discard_unfinished(entries);
        }
        let payload = PutPayload::from(mem::take(&mut self.buffer));
        let has_condition = !self.options.replace && self.has_conditional_put();
        let mut answer = match has_condition {
            true => self.put(payload.clone(), PutMode::Create)?,
            false => Err(None),
        };
        // Without the conditional write, `exists` is called first. It is also called if
        // the condition fails on Azure, because azurite counts uncommitted blocks of an
        // earlier run as an object.
        let may_ask = match &answer {
            Err(Some(failure)) => {
                failure.kind == FailureKind::Condition && self.address.service() == Service::Azure
            }
            answer => answer.is_err(),
        };
        let mut is_taken = false;
        if may_ask {
            is_taken = !self.options.replace && object::exists(&self.address, &self.options.store)?;
            if !is_taken {
                answer = self.put(payload.clone(), PutMode::Overwrite)?;
            }
        }
        let Err(failure) = answer else {
            return Ok(self.sent_whole());
        };
        let kind = failure.as_ref().map(|failure| failure.kind);
        is_taken |= kind == Some(FailureKind::Condition) && !self.options.replace;
        let may_be_own = has_condition && (is_taken || kind == Some(FailureKind::Network));
        if may_be_own && self.is_there_whole(&payload) {
            return Ok(self.sent_whole());
        }
        match failure {
            // The object is not written without the condition, since that could replace
            // another writer's object.
            Some(failure) if has_condition && kind == Some(FailureKind::Unsupported) => {
                Err(Error::NoConditions {
                    url: self.address.url(),
                    status: failure.status,
                })
            }
            Some(failure) if !is_taken => Err(failure.into_error(&self.address)),
            _ => Err(exists(&self.address, true)),
        }
    }

    fn sent_whole(&self) -> UploadReport {
        UploadReport {
            len_bytes: self.len_bytes,
            sent_bytes: self.len_bytes,
            is_without_journal: self.is_without_journal,
            ..UploadReport::default()
        }
    }

    /// Returns whether the object consists of these bytes. If the response to a
    /// successful request is lost, the retried request is refused because the object
    /// exists.
    fn is_there_whole(&self, payload: &PutPayload) -> bool {
        let there = object::read_small(&self.address, self.len_bytes, &self.options.store);
        there.is_ok_and(|there| {
            let rest = there.as_deref();
            let rest = payload
                .iter()
                .fold(rest, |rest, bytes| rest?.strip_prefix(&bytes[..]));
            rest == Some(&[])
        })
    }

    fn put(&self, payload: PutPayload, mode: PutMode) -> Result<Result<(), Option<Failure>>> {
        let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
        let answer = http_client::wait(async move {
            connection
                .objects
                .put_opts(&path, payload, mode.into())
                .await
        })?;
        Ok(match answer {
            Ok(_) => Ok(()),
            Err(error) => Err(Some(Failure::new(&error))),
        })
    }

    /// Returns whether requests may have conditions, which can be switched off for
    /// servers that do not support them.
    fn has_conditional_put(&self) -> bool {
        let conditions = self.options.store.environment.get("AWS_CONDITIONAL_PUT");
        self.address.service() != Service::S3 || conditions != Some("disabled")
    }

    /// Completes an object sent in parts.
    pub(super) fn complete(&self, session: &mut Session, parts: usize) -> Result<()> {
        let ids = session.wait(parts)?;
        if !self.options.replace && object::exists(&self.address, &self.options.store)? {
            return Err(exists(&self.address, true));
        }
        let plain = &self.connection.parts;
        let creator = self.connection.creator.as_ref();
        let creator = creator.filter(|_| !self.options.replace);
        let complete = |store: &Arc<dyn MultipartStore>| {
            let (store, path) = (Arc::clone(store), self.path.clone());
            let (id, ids) = (session.upload_id.clone(), ids.clone());
            http_client::wait(async move { store.complete_multipart(&path, &id, ids).await })
        };
        let mut answer = complete(creator.unwrap_or(plain))?;
        // The server does not support the condition.
        if creator.is_some()
            && let Err(error) = &answer
            && Failure::new(error).kind == FailureKind::Unsupported
        {
            answer = complete(plain)?;
        }
        let Err(error) = answer else {
            return Ok(());
        };
        let failure = Failure::new(&error);
        let is_refused = failure.kind == FailureKind::Condition;
        if (is_refused || is_gone(&failure)) && self.is_there(&ids) {
            return Ok(());
        }
        match is_refused && !self.options.replace {
            true => Err(exists(&self.address, true)),
            false => Err(session.failed(&error)),
        }
    }

    /// Returns whether the object consists of these parts. If the response to a
    /// successful completion is lost, the retried request is refused. On S3 and Google
    /// Cloud, the entity tag of a multipart object is derived from the digests of its
    /// parts.
    fn is_there(&self, parts: &[PartId]) -> bool {
        let mut digests = Md5::new();
        for part in parts {
            let Some(digest) = hex(part.content_id.trim_matches('"')) else {
                return false;
            };
            digests.update(digest);
        }
        let expected: String = digests
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let expected = format!("{expected}-{}", parts.len());
        let object = Object::open(&self.address, &self.options.store);
        object.is_ok_and(|object| {
            let e_tag = object.e_tag().unwrap_or_default();
            object.len_bytes() == self.len_bytes && e_tag.trim_matches('"') == expected
        })
    }
}

/// Decodes an MD5 digest in hex.
fn hex(text: &str) -> Option<[u8; 16]> {
    let mut digest = [0; 16];
    let is_digest = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (number, byte) in digest.iter_mut().enumerate().filter(|_| is_digest) {
        *byte = u8::from_str_radix(&text[2 * number..2 * number + 2], 16).ok()?;
    }
    is_digest.then_some(digest)
}
