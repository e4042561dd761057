//! Writing an object in parts.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fmt, mem};

use object_store::path::Path;

use crate::address::Service;
use crate::connection::{Connection, connect};
use crate::http_client::Purpose;
use crate::state_files::Lock;
use crate::{Address, Error, Result, StoreOptions, object};
use resume::Entries;
use session::Session;

mod completion;
mod resume;
mod session;

/// An object that is being written. It appears under its name when [`Upload::finish`]
/// returns, with all bytes given to [`Upload::write`].
///
/// An object of at most one part is sent in one request, which does not replace an
/// existing object unless [`UploadOptions::replace`] allows it. A longer object is sent
/// in parts while it is written. [`Upload::begin`] and [`Upload::finish`] check that no
/// object exists; on S3, the completing request also has that condition. On Azure and
/// Google Cloud, and on S3 with `AWS_CONDITIONAL_PUT=disabled`, an object that another
/// writer completes after the last check is replaced.
///
/// With a journal, an upload that is dropped or killed can be continued: a later upload
/// of the same bytes to the same address sends only the missing parts. Without a
/// journal, dropping an upload discards the parts already sent.
pub struct Upload {
    address: Address,
    path: Path,
    options: UploadOptions,
    connection: Arc<Connection>,
    part_bytes: usize,
    buffer: Vec<u8>,
    len_bytes: u64,
    /// The number of the part in `buffer`.
    number: usize,
    /// Path of the journal, which may not exist yet.
    journal_path: Option<PathBuf>,
    /// The journal entries of an earlier run; `None` once the first part of this run is
    /// full.
    unfinished: Option<Entries>,
    session: Option<Session>,
    has_failed: bool,
    /// True if a journal was requested but cannot be written.
    is_without_journal: bool,
    /// This field is declared last, so that the lock is released last.
    lock: Option<Lock>,
}

impl Upload {
    /// Begins to write the object at `address`, or continues the upload in the journal.
    ///
    /// # Errors
    /// [`Error::Exists`] if an object exists and may not be replaced, [`Error::Busy`]
    /// if another process uploads with the same journal, [`Error::Io`] if the journal
    /// cannot be written, and errors of requests.
    pub fn begin(address: &Address, options: &UploadOptions) -> Result<Self> {
        let path = address.object_path()?;
        let connection = connect(address, &options.store, Purpose::Write)?;
        if !options.replace && object::exists(address, &options.store)? {
            return Err(exists(address, false));
        }
        let mut upload = Self {
            address: address.clone(),
            path,
            options: options.clone(),
            connection,
            part_bytes: usize::try_from(options.usable_part_bytes()).unwrap_or(usize::MAX),
            buffer: Vec::new(),
            len_bytes: 0,
            number: 0,
            journal_path: None,
            unfinished: None,
            session: None,
            has_failed: false,
            is_without_journal: false,
            lock: None,
        };
        // Uploads to the in-memory store end with the process, so they need no journal.
        if let Some(folder) = &options.journal_folder
            && address.service() != Service::Memory
        {
            upload.begin_journal(folder)?;
        }
        Ok(upload)
    }

    /// Appends bytes. Full parts are sent in the background; this call waits while
    /// [`UploadOptions::parts_at_once`] parts are being sent.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond 9,999 parts, and errors of requests. After an error,
    /// all further calls fail.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        while !bytes.is_empty() {
            // More bytes follow, so the part in the buffer is not the last one.
            if self.buffer.len() == self.part_bytes {
                self.has_failed = true;
                self.send_buffer()?;
                self.has_failed = false;
            }
            let len = bytes.len().min(self.part_bytes - self.buffer.len());
            self.reserve(len);
            self.buffer.extend_from_slice(&bytes[..len]);
            self.len_bytes += len as u64;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Sends the remaining bytes and completes the object.
    ///
    /// # Errors
    /// [`Error::Exists`] if another writer has created the object meanwhile,
    /// [`Error::PartsLost`] if the store has discarded parts, and errors of requests.
    /// After a transient error, another upload of the same bytes continues from the
    /// journal.
    pub fn finish(mut self) -> Result<UploadReport> {
        self.check()?;
        if self.session.is_none() {
            return self.put_whole();
        }
        if !self.buffer.is_empty() {
            self.send_buffer()?;
        }
        let parts = self.number;
        let Some(mut session) = self.session.take() else {
            return self.put_whole();
        };
        let result = self.complete(&mut session, parts);
        let report = UploadReport {
            len_bytes: self.len_bytes,
            sent_bytes: session.sent_bytes,
            parts: parts as u64,
            parts_reused: session.reused,
            is_without_journal: self.is_without_journal,
        };
        match result {
            Ok(()) => {
                session.forget();
                Ok(report)
            }
            Err(error @ Error::Exists { .. }) => {
                // The parts have no further use. This error is reported even if they
                // cannot be removed.
                let _ = session.discard();
                Err(error)
            }
            Err(error @ Error::PartsLost { .. }) => {
                session.forget();
                Err(error)
            }
            Err(error) => {
                self.session = Some(session);
                Err(error)
            }
        }
    }

    /// Discards the parts already sent.
    ///
    /// # Errors
    /// Errors of requests. The store then keeps the parts until its own rules for
    /// unfinished uploads remove them.
    pub fn abort(mut self) -> Result<()> {
        if let Some(entries) = self.unfinished.take() {
            self.discard_unfinished(entries);
        }
        self.session.take().map_or(Ok(()), Session::discard)
    }

    /// Returns the address to which the object is uploaded.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the number of bytes written so far, whether sent or still buffered.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn check(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::Failed {
                url: self.address.url(),
            }),
            false => Ok(()),
        }
    }

    /// Reserves space for more bytes. Most objects are short, so the buffer grows as
    /// needed for the first part; later buffers have the length of a part at once.
    fn reserve(&mut self, additional: usize) {
        let needed = self.buffer.len() + additional;
        if needed <= self.buffer.capacity() {
            return;
        }
        let capacity = match self.number {
            0 => needed.max(2 * self.buffer.capacity()).min(self.part_bytes),
            _ => self.part_bytes,
        };
        self.buffer.reserve_exact(capacity - self.buffer.len());
    }

    fn send_buffer(&mut self) -> Result<()> {
        if self.number == MAX_PARTS {
            return Err(Error::TooLong {
                url: self.address.url(),
                detail: format!(
                    "more than {MAX_PARTS} parts of {} MiB; give the length of the object \
                     beforehand, or longer parts",
                    self.part_bytes >> 20
                ),
            });
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.begin_parts()?,
        };
        let bytes = mem::take(&mut self.buffer);
        let result = session.send(self.number, bytes, self.options.parts_at_once);
        self.number += 1;
        self.session = Some(session);
        result
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else {
            return;
        };
        session.stop();
        if session.journal.is_none() {
            // No later run could continue the upload. If the store cannot be reached,
            // its own rules for unfinished uploads remove the parts.
            let _ = session.discard();
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)?;
        Ok(bytes.len())
    }

    /// Does nothing, because only complete parts can be sent.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("address", &self.address)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}

fn exists(address: &Address, lost_race: bool) -> Error {
    Error::Exists {
        url: address.url(),
        lost_race,
    }
}

const MIB: u64 = 1 << 20;
/// The minimum length that S3 accepts for any part but the last.
const MIN_PART_BYTES: u64 = 5 * MIB;
/// The default length of a part. It is above the minimum to save requests; an upload with
/// default options buffers at most 80 MiB.
const DEFAULT_PART_BYTES: u64 = 16 * MIB;
/// Maximum number of parts. S3 permits 10,000; the last number is reserved for asking
/// the store whether an upload exists.
const MAX_PARTS: usize = 9_999;
/// The number of parts to plan for, which leaves a margin for inexact estimates.
const PLANNED_PARTS: u64 = 9_000;

/// Options for [`Upload::begin`](super::Upload::begin).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UploadOptions {
    /// If true, an existing object with this name is replaced. False by default.
    pub replace: bool,
    /// The maximum length of the object in bytes, if known. For objects over 140 GiB,
    /// it makes the parts longer; if it is unknown, objects are limited to 156 GiB.
    pub expected_bytes: Option<u64>,
    /// Length of a part in bytes, at least 5 MiB. An object of at most this length is
    /// sent in one request. 16 MiB by default.
    pub part_bytes: u64,
    /// Maximum number of parts that are sent at the same time. One more part is
    /// buffered. 4 by default.
    pub parts_at_once: usize,
    /// Folder of the journal that lets a later run continue, such as
    /// [`default_journal_folder`]. None by default; an upload without a journal is
    /// discarded when dropped.
    pub journal_folder: Option<PathBuf>,
    /// If true, the upload continues without a journal if the journal folder cannot be
    /// written or locked. False by default, which makes that an error.
    pub journal_is_optional: bool,
    /// Credentials, time limits and retries.
    pub store: StoreOptions,
}

impl UploadOptions {
    /// Returns the length of parts in bytes: `part_bytes`, or more if the object would
    /// otherwise have too many parts.
    pub(crate) fn usable_part_bytes(&self) -> u64 {
        self.part_bytes.max(self.min_part_bytes())
    }

    /// Returns the smallest part length with which the object does not have too many parts.
    pub(crate) fn min_part_bytes(&self) -> u64 {
        let expected = self.expected_bytes.unwrap_or(0).div_ceil(PLANNED_PARTS);
        expected.max(MIN_PART_BYTES).next_multiple_of(MIB)
    }
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self {
            replace: false,
            expected_bytes: None,
            part_bytes: DEFAULT_PART_BYTES,
            parts_at_once: 4,
            journal_folder: None,
            journal_is_optional: false,
            store: StoreOptions::default(),
        }
    }
}

/// The result of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UploadReport {
    /// Length of the object in bytes.
    pub len_bytes: u64,
    /// Number of bytes sent, without retried requests.
    pub sent_bytes: u64,
    /// Number of parts; 0 if the object was sent in one request.
    pub parts: u64,
    /// Number of parts that an earlier run had sent.
    pub parts_reused: u64,
    /// True if a journal was requested but could not be written, as
    /// [`UploadOptions::journal_is_optional`] permits.
    pub is_without_journal: bool,
}

/// Returns the folder for the journals of this user's uploads: `zstn/uploads` in the
/// system's folder for application state. `None` if no environment variable names that
/// folder.
#[must_use]
pub fn default_journal_folder() -> Option<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))
    };
    state.map(|state| state.join("zstn").join("uploads"))
}
