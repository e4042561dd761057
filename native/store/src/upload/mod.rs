//! Writing an object in parts.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, fs, mem};

use object_store::path::Path;
use object_store::{PutMode, PutPayload};

use crate::address::Service;
use crate::client::Purpose;
use crate::connection::{Connection, connect};
use crate::failure::{Failure, Kind};
use crate::{Address, Error, Result, runtime, small};
use journal::{Entries, Journal, StoredPart, UnfinishedUpload};
use lock::Lock;
use options::MAX_PARTS;
use session::{Session, is_gone};

mod journal;
mod lock;
mod options;
mod session;

pub use options::{UploadOptions, UploadReport, default_journal_folder};

/// An object that is being written. It appears under its name when
/// [`Upload::finish`] returns, with all bytes given to [`Upload::write`].
///
/// An object of one part or less is one request, which does not replace another
/// unless [`UploadOptions::replace`] allows it. A longer one is sent in parts
/// while it is written. Whether another exists is then asked when the upload
/// begins and before it is completed; on S3 the completion itself has that
/// condition too. On Azure and Google Cloud, another writer that completes in
/// between is replaced.
///
/// With a journal, an upload that is dropped or killed can be continued: a later
/// upload of the same bytes to the same address sends only what is missing.
/// Without one, dropping discards what was sent.
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
    /// Where the journal is or will be.
    journal_path: Option<PathBuf>,
    /// What an earlier run left, until the first part is full.
    unfinished: Option<Entries>,
    session: Option<Session>,
    has_failed: bool,
    /// Released last.
    lock: Option<Lock>,
}

impl Upload {
    /// Begins to write the object at `address`, or continues what the journal
    /// says.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is an object that may not be replaced,
    /// [`Error::Busy`] if another process uploads with the same journal,
    /// [`Error::Io`] if the journal cannot be kept, and those of requests.
    pub fn begin(address: &Address, options: &UploadOptions) -> Result<Self> {
        let path = address.object_path()?;
        let connection = connect(address, &options.store, Purpose::Write)?;
        if !options.replace && small::exists(address, &options.store)? {
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
            lock: None,
        };
        // An upload in memory ends with the process.
        if let Some(folder) = &options.journal_folder
            && address.service() != Service::Memory
        {
            upload
                .open_journal(folder.clone())
                .map_err(|error| match error {
                    Ok(error) => error,
                    Err(source) => Error::Io {
                        action: format!("keep a journal of the upload in {}", folder.display()),
                        source,
                    },
                })?;
        }
        Ok(upload)
    }

    /// Takes the lock and finds out what an earlier run left.
    fn open_journal(&mut self, folder: PathBuf) -> Result<(), Result<Error, io::Error>> {
        fs::create_dir_all(&folder).map_err(Err)?;
        let target = self.target();
        let digest = blake3::hash(target.as_bytes()).to_hex();
        let name = &digest[..32];
        self.lock = Lock::take(&folder.join(format!("{name}.lock"))).map_err(Err)?;
        if self.lock.is_none() {
            let url = self.address.url();
            return Err(Ok(Error::Busy { url }));
        }
        let path = folder.join(format!("{name}.journal"));
        let unfinished = journal::read(&path, &target).map_err(Err)?;
        self.journal_path = Some(path);
        let Some(entries) = unfinished else {
            return Ok(());
        };
        let part_bytes = entries.upload.part_bytes;
        let usable = part_bytes >= self.options.min_part_bytes();
        let usable = usable && self.has_upload(&entries.upload.upload_id).map_err(Ok)?;
        match (usable, usize::try_from(part_bytes)) {
            (true, Ok(part_bytes)) => {
                self.part_bytes = part_bytes;
                self.unfinished = Some(entries);
            }
            _ => self.discard_unfinished(entries).map_err(Ok)?,
        }
        Ok(())
    }

    /// The address together with the server, which is not a part of it.
    fn target(&self) -> String {
        let environment = &self.options.store.environment;
        let server = environment.first(match self.address.service() {
            Service::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
            Service::Azure => &[
                "AZURE_STORAGE_ENDPOINT",
                "AZURE_ENDPOINT",
                "AZURE_STORAGE_ACCOUNT_NAME",
            ],
            _ => &["GOOGLE_BASE_URL"],
        });
        let url = self.address.url();
        server.map_or_else(|| url.clone(), |server| format!("{url} at {server}"))
    }

    /// Asks the store whether it has an upload, by sending a part with a number
    /// that no object has. There is no other question for that in the library.
    fn has_upload(&self, id: &str) -> Result<bool> {
        if self.address.service() == Service::Azure {
            // There, uploads have no names, only their blocks have.
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

    /// Appends bytes. Full parts are sent while this returns; it waits when
    /// [`UploadOptions::parts_at_once`] of them are under way.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond 9,999 parts, and those of requests. After an
    /// error nothing can be written any more.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        while !bytes.is_empty() {
            // Only now is it certain that this part is not the last.
            if self.buffer.len() == self.part_bytes {
                self.has_failed = true;
                self.send_buffer()?;
                self.has_failed = false;
            }
            let len = bytes.len().min(self.part_bytes - self.buffer.len());
            self.buffer.extend_from_slice(&bytes[..len]);
            self.len_bytes += len as u64;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Sends the rest and completes the object.
    ///
    /// # Errors
    /// [`Error::Exists`] if another writer has created the object meanwhile,
    /// [`Error::PartsLost`] if the store has discarded parts, and those of
    /// requests. After an error that may pass, another upload of the same bytes
    /// continues from the journal.
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
        };
        match result {
            Ok(()) => {
                session.forget();
                Ok(report)
            }
            Err(error @ Error::Exists { .. }) => {
                // The parts are of no use to anyone. If they cannot be removed,
                // the reason to tell is still this one.
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

    /// Discards what was sent.
    ///
    /// # Errors
    /// Those of requests. The store then keeps parts until its own rules for
    /// unfinished uploads remove them.
    pub fn abort(mut self) -> Result<()> {
        if let Some(entries) = self.unfinished.take() {
            self.discard_unfinished(entries)?;
        }
        self.session.take().map_or(Ok(()), Session::discard)
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the bytes written so far, sent or not.
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

    /// Begins a multipart upload, or continues one.
    fn begin_parts(&mut self) -> Result<Session> {
        let (upload, stored) = match self.unfinished.take() {
            Some(entries) => (entries.upload, entries.parts),
            None => {
                let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
                let id =
                    runtime::wait(async move { connection.parts.create_multipart(&path).await })?;
                let upload_id =
                    id.map_err(|error| Failure::new(&error).into_error(&self.address))?;
                let upload = UnfinishedUpload {
                    address: self.target(),
                    upload_id,
                    part_bytes: self.part_bytes as u64,
                };
                (upload, BTreeMap::new())
            }
        };
        let session = |journal, stored| {
            Session::new(
                Arc::clone(&self.connection),
                self.address.clone(),
                self.path.clone(),
                upload.upload_id.clone(),
                journal,
                stored,
            )
        };
        let journal = self.journal_path.as_ref();
        match journal.map(|path| Journal::create(path, &upload, &stored)) {
            None => Ok(session(None, stored)),
            Some(Ok(journal)) => Ok(session(Some(journal), stored)),
            Some(Err(source)) => {
                // Without a journal nobody would find the upload again.
                let _ = session(None, BTreeMap::new()).discard();
                Err(Error::Io {
                    action: "write the journal of the upload".into(),
                    source,
                })
            }
        }
    }

    /// Discards what an earlier run has sent, and its journal.
    fn discard_unfinished(&self, entries: Entries) -> Result<()> {
        let Entries { upload, parts } = entries;
        let path = self.journal_path.as_ref();
        let journal = path.and_then(|path| Journal::create(path, &upload, &parts).ok());
        let (connection, address) = (Arc::clone(&self.connection), self.address.clone());
        let path = self.path.clone();
        let stored: BTreeMap<usize, StoredPart> = BTreeMap::new();
        Session::new(connection, address, path, upload.upload_id, journal, stored).discard()
    }

    /// Sends an object of one part or less.
    fn put_whole(mut self) -> Result<UploadReport> {
        if let Some(entries) = self.unfinished.take() {
            self.discard_unfinished(entries)?;
        }
        let payload = PutPayload::from(mem::take(&mut self.buffer));
        let has_condition = !self.options.replace && self.has_conditional_put();
        let mut answer = match has_condition {
            true => self.put(payload.clone(), PutMode::Create)?,
            false => Err(None),
        };
        // Without the condition there is the question. It is asked as well where
        // the condition fails for blocks that an earlier run has left on Azure:
        // they make no object, but azurite counts them as one.
        let may_ask = match &answer {
            Err(Some(failure)) => {
                failure.kind == Kind::Condition && self.address.service() == Service::Azure
            }
            answer => answer.is_err(),
        };
        if may_ask {
            if !self.options.replace && small::exists(&self.address, &self.options.store)? {
                return Err(exists(&self.address, true));
            }
            answer = self.put(payload, PutMode::Overwrite)?;
        }
        match answer {
            Ok(()) => Ok(UploadReport {
                len_bytes: self.len_bytes,
                sent_bytes: self.len_bytes,
                ..UploadReport::default()
            }),
            Err(Some(failure)) if failure.kind != Kind::Condition => {
                Err(failure.into_error(&self.address))
            }
            Err(_) => Err(exists(&self.address, true)),
        }
    }

    fn put(&self, payload: PutPayload, mode: PutMode) -> Result<Result<(), Option<Failure>>> {
        let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
        let answer = runtime::wait(async move {
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

    /// Conditions can be switched off for servers that do not have them.
    fn has_conditional_put(&self) -> bool {
        let conditions = self.options.store.environment.get("AWS_CONDITIONAL_PUT");
        self.address.service() != Service::S3 || conditions != Some("disabled")
    }

    fn complete(&self, session: &mut Session, parts: usize) -> Result<()> {
        let ids = session.wait(parts)?;
        if !self.options.replace && small::exists(&self.address, &self.options.store)? {
            return Err(exists(&self.address, true));
        }
        let plain = &self.connection.parts;
        let creator = self.connection.creator.as_ref();
        let creator = creator.filter(|_| !self.options.replace);
        let complete = |store: &Arc<dyn object_store::multipart::MultipartStore>| {
            let (store, path) = (Arc::clone(store), self.path.clone());
            let (id, ids) = (session.upload_id.clone(), ids.clone());
            runtime::wait(async move { store.complete_multipart(&path, &id, ids).await })
        };
        let mut answer = complete(creator.unwrap_or(plain))?;
        // A server that does not know the condition.
        if creator.is_some()
            && let Err(error) = &answer
            && Failure::new(error).kind == Kind::Unsupported
        {
            answer = complete(plain)?;
        }
        match answer {
            Ok(_) => Ok(()),
            Err(error) if Failure::new(&error).kind == Kind::Condition => {
                Err(exists(&self.address, true))
            }
            Err(error) => Err(session.failed(&error)),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else {
            return;
        };
        session.stop();
        if session.journal.is_none() {
            // Nobody could continue it. If the store cannot be reached, its own
            // rules remove the parts.
            let _ = session.discard();
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)?;
        Ok(bytes.len())
    }

    /// Does nothing: only complete parts can be sent.
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
