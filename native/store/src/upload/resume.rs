//! Unfinished uploads of earlier runs: finding, continuing and discarding them,
//! and the journal file, which records the parts of an upload that the store
//! already has.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::PutPayload;
use serde::{Deserialize, Serialize};

use super::session::{Session, is_gone};
use super::{MAX_PARTS, Upload};
use crate::address::Service;
use crate::object_store_error::{Failure, FailureKind};
use crate::state_files::{self, Lock};
use crate::{Error, Result, http_client};

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
        self.options.journal_is_optional && state_files::is_unwritable(error)
    }

    /// Takes the lock and reads the journal of an earlier run.
    fn open_journal(&mut self, folder: &Path) -> Result<()> {
        let failed = |source| Error::Io {
            action: format!("keep a journal of the upload in {}", folder.display()),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let target = state_files::target(&self.address, &self.options.store.environment);
        let name = state_files::file_stem(&target);
        let lock = Lock::take(&folder.join(format!("{name}.lock"))).map_err(failed)?;
        self.lock = Some(lock.ok_or_else(|| Error::Busy {
            url: self.address.url(),
        })?);
        let path = folder.join(format!("{name}.journal"));
        let unfinished = read(&path, &target).map_err(failed)?;
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
        let answer = http_client::wait(async move {
            let payload = PutPayload::from_static(b"?");
            connection
                .parts
                .put_part(&path, &id, MAX_PARTS, payload)
                .await
        })?;
        match answer.map_err(|error| Failure::new(&error)) {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == FailureKind::NotFound || is_gone(&failure) => Ok(false),
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
                    http_client::wait(
                        async move { connection.parts.create_multipart(&path).await },
                    )?;
                let upload_id =
                    id.map_err(|error| Failure::new(&error).into_error(&self.address))?;
                let upload = UnfinishedUpload {
                    address: state_files::target(&self.address, &self.options.store.environment),
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
            // If the file cannot be removed, the next run finds that its upload no longer
            // exists.
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

/// Maximum number of bytes that are read from a journal. No upload has a longer one.
const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// The record of an unfinished upload, as it is stored in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedUpload {
    pub(crate) address: String,
    pub(crate) upload_id: String,
    pub(crate) part_bytes: u64,
}

/// A part that the store has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPart {
    /// Part number, counted from 0.
    pub(crate) number: usize,
    pub(crate) len_bytes: u64,
    pub(crate) blake3: String,
    /// The store's identifier of the part.
    pub(crate) id: String,
}

/// The contents of a journal.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) upload: UnfinishedUpload,
    pub(crate) parts: BTreeMap<usize, StoredPart>,
}

/// A journal open for appending parts.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

/// Reads the journal at `path`. Returns `None` if there is none, it has no valid first
/// line, or it belongs to another address.
pub(crate) fn read(path: &Path, address: &str) -> io::Result<Option<Entries>> {
    let bytes = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(MAX_JOURNAL_BYTES).read_to_end(&mut bytes)?;
            bytes
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n');
    let Some(upload) = lines.next().and_then(parse::<UnfinishedUpload>) else {
        return Ok(None);
    };
    if upload.address != address {
        return Ok(None);
    }
    let parts = lines.map_while(parse::<StoredPart>);
    let parts = parts.map(|part| (part.number, part)).collect();
    Ok(Some(Entries { upload, parts }))
}

impl Journal {
    /// Writes a journal with these entries, and replaces an existing one.
    pub(crate) fn create(
        path: &Path,
        upload: &UnfinishedUpload,
        parts: &BTreeMap<usize, StoredPart>,
    ) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut text = line(upload)?;
        for part in parts.values() {
            text.push_str(&line(part)?);
        }
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(Self {
            path: path.into(),
            file: OpenOptions::new().append(true).open(path)?,
        })
    }

    /// Appends a part. If a part with the same number exists, the new one replaces it.
    pub(crate) fn add(&mut self, part: &StoredPart) -> io::Result<()> {
        self.file.write_all(line(part)?.as_bytes())?;
        self.file.sync_data()
    }

    /// Removes the journal of an upload that cannot or need not be continued.
    pub(crate) fn remove(self) {
        drop(self.file);
        // If the file cannot be removed, a later run finds that its upload no longer
        // exists.
        let _ = fs::remove_file(&self.path);
    }
}

fn line(entry: &impl Serialize) -> io::Result<String> {
    let json = serde_json::to_string(entry)?;
    Ok(format!(
        "{} {json}\n",
        blake3::hash(json.as_bytes()).to_hex()
    ))
}

fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Option<T> {
    let (digest, json) = line.strip_suffix('\n')?.split_once(' ')?;
    let actual = blake3::hash(json.as_bytes()).to_hex();
    (digest == actual.as_str()).then(|| serde_json::from_str(json).ok())?
}
