//! Storage for large files: a folder of files named by their SHA-256.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use axum::body::Body;
use futures_util::TryStreamExt;
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempDir};

/// Size of the buffer for hashing files, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Blobs {
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

impl Blobs {
    /// Uses `folder`, or creates a temporary one.
    pub(super) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        let temporary = match folder {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("stub-hub-").tempdir()?),
        };
        let folder = folder
            .or_else(|| temporary.as_ref().map(|t| t.path().to_owned()))
            .unwrap_or_default();
        fs::create_dir_all(folder.join("incoming"))?;
        Ok(Self {
            folder,
            _temporary: temporary,
        })
    }

    /// Removes all stored files.
    pub(super) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Returns the path of a file, whether the file exists or not.
    pub(super) fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Returns the length of a file; `None` if the file does not exist.
    pub(super) fn len_bytes(&self, sha256: &str) -> Option<u64> {
        fs::metadata(self.path(sha256)).ok().map(|data| data.len())
    }

    /// Creates a temporary file that [`Self::keep`] can move into place.
    pub(super) fn temporary(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(self.folder.join("incoming"))
    }

    /// Stores bytes and returns their SHA-256.
    pub(super) fn add(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = crate::sha256(bytes);
        let mut file = self.temporary()?;
        file.write_all(bytes)?;
        self.keep(file, &sha256)?;
        Ok(sha256)
    }

    /// Moves a complete file to the path for its SHA-256.
    pub(super) fn keep(&self, file: NamedTempFile, sha256: &str) -> io::Result<()> {
        file.persist(self.path(sha256))?;
        Ok(())
    }

    /// Writes a request's body to `file` and returns its SHA-256.
    pub(super) async fn receive(
        &self,
        file: &mut NamedTempFile,
        body: Incoming,
    ) -> io::Result<String> {
        let mut hasher = Sha256::new();
        let mut stream = Body::new(body).into_data_stream().map_err(io::Error::other);
        while let Some(bytes) = stream.try_next().await? {
            hasher.update(&bytes);
            file.write_all(&bytes)?;
        }
        Ok(hex(&hasher.finalize()))
    }

    /// Returns the path of an upload part, whether it exists or not.
    pub(super) fn part(&self, sha256: &str, number: u64) -> PathBuf {
        let name = format!("{sha256}.{number}");
        self.folder.join("incoming").join(name)
    }
}

/// Appends the contents of a file to another file and feeds them to the digests.
pub(super) fn append(
    to: &mut NamedTempFile,
    from: &Path,
    digests: [&mut Sha256; 2],
) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let [first, second] = digests;
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        first.update(&buffer[..len]);
        second.update(&buffer[..len]);
        to.write_all(&buffer[..len])?;
    }
}

/// Formats bytes in lowercase hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether `text` is a SHA-256 in lowercase hex, and therefore safe as a file
/// name.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
