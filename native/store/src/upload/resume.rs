//! Unfinished uploads of earlier runs: finding, continuing and discarding them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use object_store::PutPayload;

use super::Upload;
use super::journal::{self, Entries, Journal, StoredPart, UnfinishedUpload};
use super::options::MAX_PARTS;
use super::session::{Session, is_gone};
use crate::address::Service;
use crate::failure::{Failure, Kind};
use crate::lock::Lock;
use crate::{Error, Result, runtime, state};

impl Upload {
    /// Returns the number of parts that an earlier run has sent. Whether they can be
    /// reused is only known once the same bytes are written again.
    #[must_use]
    pub fn unfinished_parts(&self) -> usize {
        self.unfinished
            .as_ref()
            .map_or(0, |entries| entries.parts.len())
    }

    /// Sets the maximum length of the object, like
    /// [`UploadOptions::expected_bytes`](super::UploadOptions::expected_bytes). It has
    /// no effect once the first part is full. An earlier run's upload is discarded if
    /// its parts are too short for this length.
    pub fn expect(&mut self, len_bytes: u64) {
        if self.session.is_some() {
            return;
        }
        self.options.expected_bytes = Some(len_bytes);
        let min = self.options.min_part_bytes();
        let too_short = |entries: &mut Entries| entries.upload.part_bytes < min;
        if let Some(entries) = self.unfinished.take_if(too_short) {
            self.discard_unfinished(entries);
        }
        let part_bytes = usize::try_from(self.options.usable_part_bytes());
        if let (None, Ok(part_bytes)) = (&self.unfinished, part_bytes) {
            self.part_bytes = part_bytes.max(self.buffer.len());
        }
    }

    /// Opens the journal. If that is impossible but the journal is optional, continues
    /// without one.
    pub(super) fn begin_journal(&mut self, folder: &Path) -> Result<()> {
        let opened = self.open_journal(folder);
        if matches!(&opened, Err(Error::Io { source, .. }) if self.may_do_without(source)) {
            self.lock = None;
            self.journal_path = None;
            self.is_without_journal = true;
            return Ok(());
        }
        opened
    }

    fn may_do_without(&self, error: &io::Error) -> bool {
        self.options.journal_is_optional && state::is_unwritable(error)
    }

    /// Takes the lock and reads the journal of an earlier run.
    fn open_journal(&mut self, folder: &Path) -> Result<()> {
        let failed = |source| Error::Io {
            action: format!("keep a journal of the upload in {}", folder.display()),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let target = state::target(&self.address, &self.options.store.environment);
        let name = state::file_stem(&target);
        let lock = Lock::take(&folder.join(format!("{name}.lock"))).map_err(failed)?;
        self.lock = Some(lock.ok_or_else(|| Error::Busy {
            url: self.address.url(),
        })?);
        let path = folder.join(format!("{name}.journal"));
        let unfinished = journal::read(&path, &target).map_err(failed)?;
        self.journal_path = Some(path);
        let Some(entries) = unfinished else {
            return Ok(());
        };
        let part_bytes = entries.upload.part_bytes;
        let is_usable = part_bytes >= self.options.min_part_bytes();
        match usize::try_from(part_bytes) {
            Ok(part_bytes) if is_usable && self.has_upload(&entries.upload.upload_id)? => {
                self.part_bytes = part_bytes;
                self.unfinished = Some(entries);
            }
            _ => self.discard_unfinished(entries),
        }
        Ok(())
    }

    /// Returns whether the store still has an upload, by sending a part with a number
    /// that no object uses. The `object_store` crate has no other request for that.
    fn has_upload(&self, id: &str) -> Result<bool> {
        if self.address.service() == Service::Azure {
            // On Azure, uploads have no identifiers; only their blocks have.
            return Ok(true);
        }
        let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
        let id = id.to_owned();
        let answer = runtime::wait(async move {
            let payload = PutPayload::from_static(b"?");
            connection
                .parts
                .put_part(&path, &id, MAX_PARTS, payload)
                .await
        })?;
        match answer.map_err(|error| Failure::new(&error)) {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == Kind::NotFound || is_gone(&failure) => Ok(false),
            Err(failure) => Err(failure.into_error(&self.address)),
        }
    }

    /// Begins a multipart upload, or continues an unfinished one.
    pub(super) fn begin_parts(&mut self) -> Result<Session> {
        let (upload, stored) = match self.unfinished.take() {
            Some(entries) => (entries.upload, entries.parts),
            None => {
                let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
                let id =
                    runtime::wait(async move { connection.parts.create_multipart(&path).await })?;
                let upload_id =
                    id.map_err(|error| Failure::new(&error).into_error(&self.address))?;
                let upload = UnfinishedUpload {
                    address: state::target(&self.address, &self.options.store.environment),
                    upload_id,
                    part_bytes: self.part_bytes as u64,
                };
                (upload, BTreeMap::new())
            }
        };
        let id = upload.upload_id.clone();
        let journal = self.journal_path.as_ref();
        match journal.map(|path| Journal::create(path, &upload, &stored)) {
            None => Ok(self.session(id, None, stored)),
            Some(Ok(journal)) => Ok(self.session(id, Some(journal), stored)),
            Some(Err(error)) if self.may_do_without(&error) => {
                self.is_without_journal = true;
                Ok(self.session(id, None, stored))
            }
            Some(Err(source)) => {
                // Without a journal, no later run could find the upload.
                let _ = self.session(id, None, stored).discard();
                Err(Error::Io {
                    action: "write the journal of the upload".into(),
                    source,
                })
            }
        }
    }

    /// Discards an earlier run's parts, and its journal. Credentials that permit
    /// writing do not always permit discarding; the store's own rules for unfinished
    /// uploads then remove the parts.
    pub(super) fn discard_unfinished(&self, entries: Entries) {
        let id = entries.upload.upload_id;
        let _ = self.session(id, None, BTreeMap::new()).discard();
        if let Some(path) = &self.journal_path {
            // If the file remains, the next run finds that its upload no longer exists.
            let _ = fs::remove_file(path);
        }
    }

    fn session(
        &self,
        upload_id: String,
        journal: Option<Journal>,
        stored: BTreeMap<usize, StoredPart>,
    ) -> Session {
        Session::new(
            Arc::clone(&self.connection),
            self.address.clone(),
            self.path.clone(),
            upload_id,
            journal,
            stored,
        )
    }
}
