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

/// More than any marker has.
const MAX_MARKER_BYTES: u64 = 4096;

/// The exclusive right to write a folder of objects.
///
/// A marker object, [`FolderClaim::MARKER`], is in the folder from the beginning
/// until [`FolderClaim::release`]. It is created on condition that there is none,
/// so of two writers one is refused, and a folder with a marker is not complete.
///
/// The marker has a random identifier, which is also kept in a local file.
/// Dropping a claim keeps both: a later attempt that finds the file continues the
/// claim, and every object in the folder is from attempts before it.
#[derive(Debug)]
pub struct FolderClaim {
    folder: Address,
    marker: Address,
    options: StoreOptions,
    record: Record,
    is_continued: bool,
}

/// The content of the marker.
#[derive(Serialize, Deserialize)]
struct Marker {
    id: String,
}

impl FolderClaim {
    /// The name of the marker.
    pub const MARKER: &'static str = ".zstn-unfinished";

    /// Claims the folder at `folder`, which has to be empty, or continues the claim
    /// that the file in `state_folder` is about. While the claim exists that file
    /// is locked.
    ///
    /// Without `state_folder`, or where it cannot be written or locked, the claim
    /// cannot be continued. Claims in memory are continued within the process,
    /// without a file.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] and [`Error::Claimed`] if the folder is not for this
    /// attempt, [`Error::Busy`] if another claim has the lock, [`Error::Io`] if the
    /// file cannot be kept, and those of requests.
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

    /// Returns whether this continues an attempt that was cut off. The objects in
    /// the folder are then those that it has left.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Returns whether a later attempt could continue this one.
    #[must_use]
    pub fn is_continuable(&self) -> bool {
        self.record.is_kept()
    }

    /// Returns the address of the folder.
    #[must_use]
    pub fn folder(&self) -> &Address {
        &self.folder
    }

    /// Ends the claim of a folder that is complete.
    ///
    /// # Errors
    /// Those of requests. The marker then stays, and a later attempt continues the
    /// claim.
    pub fn release(self) -> Result<()> {
        delete(&self.marker, &self.options)?;
        self.record.remove();
        Ok(())
    }

    /// Deletes the objects `written`, the last one first, and ends the claim.
    ///
    /// # Errors
    /// Those of the first request that fails. Nothing is deleted after it, and a
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
        // A marker that it was about is gone.
        self.record.clear();
        self.refuse_content()?;
        let id = new_id();
        let marker = serde_json::to_vec(&Marker { id: id.clone() });
        let marker = marker.map_err(|error| Error::Io {
            action: "write the marker of the folder".into(),
            source: error.into(),
        })?;
        // Before the marker: a marker whose identifier is lost is in everyone's way.
        self.record.set(id)?;
        self.create(&marker)?;
        // Another attempt may have begun and completed the folder since it was seen
        // empty.
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

/// Returns an identifier that no other attempt has. It is no secret.
fn new_id() -> String {
    let mut hasher = blake3::Hasher::new();
    // Each has keys that the system has chosen at random.
    for _ in 0..2 {
        hasher.update(&RandomState::new().hash_one(0).to_le_bytes());
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    hasher.update(&now.unwrap_or_default().as_nanos().to_le_bytes());
    hasher.update(&process::id().to_le_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}
