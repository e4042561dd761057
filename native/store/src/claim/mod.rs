//! The exclusive right to write a folder of objects.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{
    Address, Error, Result, StoreOptions, Upload, UploadOptions, delete, listing, read_small,
};
use record::Record;

mod record;

/// Maximum length of a marker in bytes. Markers are much shorter.
const MAX_MARKER_BYTES: u64 = 4096;

/// The exclusive right to write a folder of objects.
///
/// A marker object, [`FolderClaim::MARKER`], exists in the folder from
/// [`FolderClaim::take`] until [`FolderClaim::release`]. It is created on the condition
/// that it does not exist, so only one of two writers succeeds, and a folder that
/// contains a marker is incomplete. With `AWS_CONDITIONAL_PUT=disabled`, its absence is
/// only checked beforehand, and two writers that start at the same time may both
/// succeed.
///
/// The marker contains a random identifier, which is also recorded in a local file.
/// Dropping a claim removes neither. A later attempt that finds the file continues the
/// claim; all objects in the folder are then from its own earlier attempts.
#[derive(Debug)]
pub struct FolderClaim {
    folder: Address,
    marker: Address,
    options: StoreOptions,
    record: Record,
    is_continued: bool,
}

/// The content of the marker object.
#[derive(Serialize, Deserialize)]
struct Marker {
    id: String,
}

impl FolderClaim {
    /// The name of the marker object.
    pub const MARKER: &'static str = ".zstn-unfinished";

    /// Claims the folder at `folder`, which has to be empty, or continues the claim
    /// recorded in `state_folder`. The file that records it is locked while the claim
    /// exists.
    ///
    /// Without `state_folder`, or if it cannot be written or locked, a later process
    /// cannot continue the claim. Claims in the in-memory store can be continued within
    /// the process, without a file.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if the folder contains objects, [`Error::Claimed`] if
    /// another attempt has claimed it, [`Error::Busy`] if another claim has the lock,
    /// [`Error::Io`] if the claim cannot be recorded, and errors of requests.
    pub fn take(
        folder: &Address,
        state_folder: Option<&Path>,
        options: &StoreOptions,
    ) -> Result<Self> {
        let marker = folder.join(Self::MARKER)?;
        let record = Record::open(folder, state_folder, options)?;
        let mut claim = Self {
            folder: folder.clone(),
            marker,
            options: options.clone(),
            record,
            is_continued: false,
        };
        match read_small(&claim.marker, MAX_MARKER_BYTES, options)? {
            Some(marker) if claim.is_own(&marker) => claim.is_continued = true,
            Some(_) => return Err(claim.claimed()),
            None => claim.begin()?,
        }
        Ok(claim)
    }

    /// Returns whether this claim continues an interrupted attempt, whose objects are
    /// still in the folder.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Returns whether a later attempt could continue this claim.
    #[must_use]
    pub fn is_continuable(&self) -> bool {
        self.record.is_kept()
    }

    /// Returns the address of the claimed folder.
    #[must_use]
    pub fn folder(&self) -> &Address {
        &self.folder
    }

    /// Ends the claim of a folder that is complete.
    ///
    /// # Errors
    /// Errors of requests. The marker then remains, and a later attempt continues the
    /// claim.
    pub fn release(self) -> Result<()> {
        delete(&self.marker, &self.options)?;
        self.record.remove();
        Ok(())
    }

    /// Deletes the objects `written`, starting with the last, and ends the claim.
    ///
    /// # Errors
    /// The error of the first request that fails. Nothing is deleted after it, and a
    /// later attempt continues the claim.
    pub fn discard(self, written: &[Address]) -> Result<()> {
        for address in written.iter().rev() {
            delete(address, &self.options)?;
        }
        self.release()
    }

    fn is_own(&self, marker: &[u8]) -> bool {
        let id = serde_json::from_slice(marker).ok().map(|Marker { id }| id);
        id.is_some() && id.as_deref() == self.record.id()
    }

    fn begin(&mut self) -> Result<()> {
        // The marker with the recorded identifier no longer exists.
        self.record.clear();
        self.refuse_content()?;
        let id = new_id();
        let marker = serde_json::to_vec(&Marker { id: id.clone() });
        let marker = marker.map_err(|error| Error::Io {
            action: "write the marker of the folder".into(),
            source: error.into(),
        })?;
        // The identifier is recorded first: if the process stopped in between, a marker
        // with an unknown identifier would block every later attempt.
        self.record.set(id)?;
        self.create(&marker)?;
        // Another attempt may have claimed, filled and released the folder since it was
        // seen empty.
        if let Err(error) = self.refuse_content() {
            if matches!(error, Error::NotEmpty { .. }) {
                delete(&self.marker, &self.options)?;
                self.record.clear();
            }
            return Err(error);
        }
        Ok(())
    }

    fn create(&mut self, marker: &[u8]) -> Result<()> {
        let mut options = UploadOptions::default();
        options.store = self.options.clone();
        let result = Upload::begin(&self.marker, &options).and_then(|mut upload| {
            upload.write(marker)?;
            upload.finish()
        });
        match result {
            Ok(_) => Ok(()),
            Err(Error::Exists { .. }) => {
                self.record.clear();
                Err(self.claimed())
            }
            Err(error) => Err(error),
        }
    }

    fn refuse_content(&self) -> Result<()> {
        match listing::find_other(&self.folder, Self::MARKER, &self.options)? {
            None => Ok(()),
            Some(found) => Err(Error::NotEmpty {
                url: self.folder.url(),
                found,
            }),
        }
    }

    fn claimed(&self) -> Error {
        Error::Claimed {
            url: self.folder.url(),
        }
    }
}

/// Returns an identifier that no other attempt has. It is not a secret.
fn new_id() -> String {
    let mut hasher = blake3::Hasher::new();
    // Each `RandomState` contains random keys.
    for _ in 0..2 {
        hasher.update(&RandomState::new().hash_one(0).to_le_bytes());
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    hasher.update(&now.unwrap_or_default().as_nanos().to_le_bytes());
    hasher.update(&process::id().to_le_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}
