//! The journal file, which records the parts of an upload that the store already has.
//!
//! Each line consists of a BLAKE3 digest and the JSON object that it covers. The first
//! line describes the upload, every other line a part. A part is appended when the
//! store has confirmed it. Lines after a torn or damaged line are ignored, and without
//! a valid first line there is no journal: damage can cause parts to be sent again, but
//! never wrong bytes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Longer than the journal of the longest upload.
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
        // If the file remains, a later run finds that its upload no longer exists.
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
