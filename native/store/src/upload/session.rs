//! The parts of an upload that are being sent or have been stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use object_store::PutPayload;
use object_store::multipart::PartId;
use object_store::path::Path;
use tokio::task::AbortHandle;

use super::resume::{Journal, StoredPart};
use crate::connection::Connection;
use crate::object_store_error::Failure;
use crate::{Address, Error, Result, http_client};

/// A multipart upload in progress.
pub(super) struct Session {
    pub(super) connection: Arc<Connection>,
    pub(super) address: Address,
    pub(super) path: Path,
    pub(super) upload_id: String,
    pub(super) journal: Option<Journal>,
    /// Parts that the store has, including parts sent by earlier runs.
    pub(super) stored: BTreeMap<usize, StoredPart>,
    pub(super) sent_bytes: u64,
    pub(super) reused: u64,
    sender: Sender<Sent>,
    receiver: Receiver<Sent>,
    tasks: BTreeMap<usize, AbortHandle>,
}

/// The outcome of sending a part.
struct Sent {
    part: StoredPart,
    result: object_store::Result<PartId>,
}

impl Session {
    pub(super) fn new(
        connection: Arc<Connection>,
        address: Address,
        path: Path,
        upload_id: String,
        journal: Option<Journal>,
        stored: BTreeMap<usize, StoredPart>,
    ) -> Self {
        let (sender, receiver) = channel();
        Self {
            connection,
            address,
            path,
            upload_id,
            journal,
            stored,
            sent_bytes: 0,
            reused: 0,
            sender,
            receiver,
            tasks: BTreeMap::new(),
        }
    }

    /// Sends part `number` in the background, unless the store already has it. Waits
    /// first while `at_once` parts are being sent.
    pub(super) fn send(&mut self, number: usize, bytes: Vec<u8>, at_once: usize) -> Result<()> {
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        let len_bytes = bytes.len() as u64;
        let known = self.stored.get(&number);
        if known.is_some_and(|part| part.len_bytes == len_bytes && part.blake3 == blake3) {
            self.reused += 1;
            return Ok(());
        }
        self.stored.remove(&number);
        while self.tasks.len() >= at_once.max(1) {
            self.wait_for_one()?;
        }
        let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
        let (id, sender) = (self.upload_id.clone(), self.sender.clone());
        let part = StoredPart {
            number,
            len_bytes,
            blake3,
            id: String::new(),
        };
        let threads = http_client::shared()?;
        let task = threads.spawn(async move {
            let payload = PutPayload::from(bytes);
            connection.parts.put_part(&path, &id, number, payload).await
        });
        self.tasks.insert(number, task.abort_handle());
        threads.spawn(async move {
            // A task that panics reports an error, too.
            let result = task.await.unwrap_or_else(|error| Err(error.into()));
            // Sending fails only if the upload was dropped.
            let _ = sender.send(Sent { part, result });
        });
        Ok(())
    }

    /// Waits until all parts are stored, and returns the store's identifiers of parts
    /// `0..count`.
    pub(super) fn wait(&mut self, count: usize) -> Result<Vec<PartId>> {
        while !self.tasks.is_empty() {
            self.wait_for_one()?;
        }
        // Parts beyond `count` are from an earlier run whose object was longer.
        self.stored.retain(|number, _| *number < count);
        let ids: Vec<PartId> = self.stored.values().map(part_id).collect();
        match ids.len() == count {
            true => Ok(ids),
            false => Err(Error::Failed {
                url: self.address.url(),
            }),
        }
    }

    fn wait_for_one(&mut self) -> Result<()> {
        // Every task sends its outcome, and the session itself owns a sender, so the
        // channel is not closed.
        let sent = self.receiver.recv().map_err(|_| Error::Failed {
            url: self.address.url(),
        })?;
        self.note(sent)
    }

    fn note(&mut self, sent: Sent) -> Result<()> {
        let mut part = sent.part;
        self.tasks.remove(&part.number);
        let id = sent.result.map_err(|error| self.failed(&error))?;
        part.id = id.content_id;
        self.sent_bytes += part.len_bytes;
        if let Some(journal) = &mut self.journal {
            journal.add(&part).map_err(|source| Error::Io {
                action: "write the journal of the upload".into(),
                source,
            })?;
        }
        self.stored.insert(part.number, part);
        Ok(())
    }

    pub(super) fn failed(&self, error: &object_store::Error) -> Error {
        let failure = Failure::new(error);
        if is_gone(&failure) {
            return Error::PartsLost {
                url: self.address.url(),
            };
        }
        failure.into_error(&self.address)
    }

    /// Stops sending. Parts that have been stored are still added to the journal.
    pub(super) fn stop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
        while let Ok(sent) = self.receiver.try_recv() {
            // Parts that failed are sent again by a later run.
            let _ = self.note(sent);
        }
        self.tasks.clear();
    }

    /// Discards the parts in the store, and the journal.
    pub(super) fn discard(mut self) -> Result<()> {
        self.stop();
        let (connection, path) = (Arc::clone(&self.connection), self.path.clone());
        let id = self.upload_id.clone();
        let result =
            http_client::wait(async move { connection.parts.abort_multipart(&path, &id).await })?;
        match result.map_err(|error| self.failed(&error)) {
            Ok(()) | Err(Error::PartsLost { .. } | Error::NotFound { .. }) => {
                self.forget();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the journal.
    pub(super) fn forget(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
    }
}

fn part_id(part: &StoredPart) -> PartId {
    PartId {
        content_id: part.id.clone(),
    }
}

/// Returns whether the store reports that it does not have an upload or a part.
pub(super) fn is_gone(failure: &Failure) -> bool {
    failure.is(&[
        "NoSuchUpload",
        "InvalidPart",
        "InvalidBlockList",
        "InvalidBlobOrBlock",
    ])
}
