//! Object IDs.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use zstn::internals::regular;
use zstn::{Error, Result};

/// Number of bytes that are hashed at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The ID of an object: the SHA-256 of the original file, as 64 lower-case hexadecimal
/// digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Oid(String);

impl Oid {
    /// Returns the ID of all zeros, which no object has.
    pub(super) fn zero() -> Self {
        Self("0".repeat(64))
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path of the object in a store, `aa/bb/ID`, where `aabb` are the
    /// first four digits of the ID.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}/{}", &self.0[..2], &self.0[2..4], self.0)
    }

    /// Returns the ID of a file's content.
    ///
    /// # Errors
    /// I/O errors.
    pub fn of_file(path: &Path) -> Result<Self> {
        let fail = || Error::file("read", path);
        let mut file = regular::open(path).map_err(|error| fail()(error))?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => hash.update(&piece[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail()(error)),
            }
        }
        let digest = hash.finalize();
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        Ok(Self(digits.collect()))
    }
}

impl FromStr for Oid {
    type Err = Error;

    /// Parses 64 lower-case digits, as git-lfs writes them. Other text is rejected,
    /// because it could form a path that leads out of the store.
    fn from_str(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == 64 && text.bytes().all(is_digit) {
            true => Ok(Self(text.into())),
            false => Err(Error::Usage(
                "the name of an object has to be a SHA-256 in 64 hexadecimal digits".into(),
            )),
        }
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
