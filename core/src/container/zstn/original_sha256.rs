//! The SHA-256 of the original file and its source
//! (docs/formats/zstn-integrity.md 3).

use alloc::format;
use alloc::string::String;

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// The source of the SHA-256 of the original file, which the integrity section
/// stores.
///
/// Computing a SHA-256 is one sequential chain over all bytes. A caller that
/// knows it, for example because Git LFS names the file by it, can save the
/// packer that work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginalSha256 {
    /// The packer computes it.
    #[default]
    Computed,
    /// The caller claims it and has not compared it with the file. The
    /// container states that, and the claim is checked whenever the whole file
    /// is restored. A container with a single frame cannot store a claim, so
    /// the packer checks it at once.
    Claimed([u8; 32]),
    /// The caller promises to compare it with the restored file before anyone
    /// reads the container. The container is then the same as with
    /// [`OriginalSha256::Computed`].
    Checked([u8; 32]),
}

impl OriginalSha256 {
    /// Returns the digest, unless the packer computes it.
    #[must_use]
    pub fn known(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Computed => None,
            Self::Claimed(sha256) | Self::Checked(sha256) => Some(sha256),
        }
    }

    /// Compares a claim with the file, given as consecutive pieces.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) for a wrong claim.
    pub(super) fn check_claim<'a>(self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let Self::Claimed(claimed) = self else {
            return Ok(());
        };
        let mut sha256 = Sha256::new();
        for piece in pieces {
            sha256.update(piece);
        }
        let found: [u8; 32] = sha256.finalize().into();
        if found == claimed {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "the file has the SHA-256 {}, not {}, which was given for it: pack the right file, or \
             give its own SHA-256 or none",
            hex(&found),
            hex(&claimed)
        )))
    }
}

/// Parses a SHA-256 of 64 hexadecimal digits.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind) for any other text.
pub fn parse_sha256(text: &str) -> Result<[u8; 32]> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let mut sha256 = [0; 32];
    let mut is_right = text.len() == 64;
    for (byte, pair) in sha256.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = value(pair[0]).zip(value(pair[1]));
        let parsed = pair.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        is_right &= parsed.is_some();
        *byte = parsed.unwrap_or_default();
    }
    match is_right {
        true => Ok(sha256),
        false => Err(Error::invalid_input(
            "a SHA-256 has 64 hexadecimal digits, as in the `oid` of a Git LFS pointer after \
             `sha256:`",
        )),
    }
}

/// Returns the digest as lower-case hexadecimal digits.
pub(super) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
