//! The identifier of a claim, recorded so that a later attempt can continue it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::address::Service;
use crate::state_files::Lock;
use crate::{Address, Error, Result, StoreOptions, state_files};

/// The recorded identifier of one claim.
#[derive(Debug)]
pub(super) struct Record {
    place: Place,
    id: Option<String>,
}

#[derive(Debug)]
enum Place {
    Nowhere,
    /// Claims in the in-memory store are recorded in this process.
    Process(Held),
    File {
        path: PathBuf,
        target: String,
        /// This field is declared last, so that the lock is released last.
        _lock: Lock,
    },
}

/// The content of the state file.
#[derive(Serialize, Deserialize)]
struct Claim {
    address: String,
    id: String,
}

impl Record {
    /// Takes the lock and reads the identifier that an earlier attempt recorded.
    pub(super) fn open(
        folder: &Address,
        state_folder: Option<&Path>,
        options: &StoreOptions,
    ) -> Result<Self> {
        let busy = || Error::Busy { url: folder.url() };
        if folder.service() == Service::Memory {
            let held = Held::take(folder.url()).ok_or_else(busy)?;
            let id = held.id();
            let place = Place::Process(held);
            return Ok(Self { place, id });
        }
        let nowhere = Self {
            place: Place::Nowhere,
            id: None,
        };
        let Some(state_folder) = state_folder else {
            return Ok(nowhere);
        };
        let target = state_files::target(folder, &options.environment);
        match open_file(state_folder, target) {
            Ok(Some(record)) => Ok(record),
            Ok(None) => Err(busy()),
            Err(error) if state_files::is_unwritable(&error) => Ok(nowhere),
            Err(source) => Err(failed(state_folder, source)),
        }
    }

    /// Returns whether a later attempt can find the identifier.
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self.place, Place::Nowhere)
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn set(&mut self, id: String) -> Result<()> {
        match &self.place {
            Place::Nowhere => {}
            Place::Process(held) => held.set(Some(id.clone())),
            Place::File { path, target, .. } => {
                let claim = Claim {
                    address: target.clone(),
                    id: id.clone(),
                };
                match write(path, &claim) {
                    // The existing lock file can be locked, but no file can be created.
                    Err(error) if state_files::is_unwritable(&error) => self.place = Place::Nowhere,
                    written => written.map_err(|source| failed(path, source))?,
                }
            }
        }
        self.id = Some(id);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.id = None;
        match &self.place {
            Place::Nowhere => {}
            Place::Process(held) => held.set(None),
            // If the file cannot be removed, that is harmless: no marker has its
            // identifier.
            Place::File { path, .. } => drop(fs::remove_file(path)),
        }
    }

    pub(super) fn remove(mut self) {
        self.clear();
    }
}

fn failed(place: &Path, source: io::Error) -> Error {
    Error::Io {
        action: format!("keep the claim of the folder in {}", place.display()),
        source,
    }
}

/// Takes the lock and reads the file. Returns `None` if another claim holds the lock.
fn open_file(state_folder: &Path, target: String) -> io::Result<Option<Record>> {
    fs::create_dir_all(state_folder)?;
    let name = format!("{}.folder", state_files::file_stem(&target));
    let Some(lock) = Lock::take(&state_folder.join(format!("{name}.lock")))? else {
        return Ok(None);
    };
    let path = state_folder.join(name);
    let id = read(&path, &target)?;
    let place = Place::File {
        path,
        target,
        _lock: lock,
    };
    Ok(Some(Record { place, id }))
}

/// Returns the identifier in the file if it was recorded for `target`. A damaged file
/// counts as missing.
fn read(path: &Path, target: &str) -> io::Result<Option<String>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let claim: Option<Claim> = serde_json::from_slice(&bytes).ok();
    Ok(claim
        .filter(|claim| claim.address == target)
        .map(|claim| claim.id))
}

fn write(path: &Path, claim: &Claim) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(claim)?)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Identifiers of claims in the in-memory store, by the address of the folder.
static PROCESS: Mutex<BTreeMap<String, Entry>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Entry {
    is_held: bool,
    id: Option<String>,
}

fn process() -> MutexGuard<'static, BTreeMap<String, Entry>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock on an entry of [`PROCESS`].
#[derive(Debug)]
struct Held {
    url: String,
}

impl Held {
    fn take(url: String) -> Option<Self> {
        let mut entries = process();
        let entry = entries.entry(url.clone()).or_default();
        if entry.is_held {
            return None;
        }
        entry.is_held = true;
        Some(Self { url })
    }

    fn id(&self) -> Option<String> {
        process().get(&self.url).and_then(|entry| entry.id.clone())
    }

    fn set(&self, id: Option<String>) {
        if let Some(entry) = process().get_mut(&self.url) {
            entry.id = id;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut entries = process();
        match entries.get_mut(&self.url) {
            Some(entry) if entry.id.is_some() => entry.is_held = false,
            _ => drop(entries.remove(&self.url)),
        }
    }
}
