//! The checksums of parts (docs/formats/ztensor.md 5, 7.1 and 8.2).

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::checksum::{agrees, checksum, checksum_fed};
use crc::{CRC_32_ISCSI, Crc, Table};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result, Rule};

/// CRC-32C, also known as Castagnoli's.
static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The expected checksum of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// The algorithm and the expected value.
    pub digest: PartDigest,
    /// The bytes that the checksum covers.
    pub covers: Covers,
}

/// The bytes that a checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Covers {
    /// The bytes as they are stored in the file: versions 0.1 and 1.
    Stored,
    /// The decoded bytes: version 2.
    Decoded,
}

/// An algorithm and the value that it should give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartDigest {
    /// The CRC-32C of the bytes.
    Crc32c(u32),
    /// The SHA-256 of the bytes.
    Sha256([u8; 32]),
    /// XXH3 with 64 bits and seed 0.
    Xxh3(u64),
    /// A known algorithm with a value that cannot be parsed. Versions 0.1 and 1
    /// then refuse the tensor, not the file.
    Unreadable(String),
}

/// The checksum algorithms with which a file of version 0.1 can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestKind {
    /// CRC-32C, which the released packages of that version write and check.
    Crc32c,
    /// SHA-256, which readers of version 1 check and readers of 0.1 ignore.
    Sha256,
}

impl PartDigest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(kind: DigestKind, bytes: &[u8]) -> Self {
        match kind {
            DigestKind::Crc32c => Self::Crc32c(CRC32C.checksum(bytes)),
            DigestKind::Sha256 => Self::Sha256(sha256(bytes)),
        }
    }

    /// Parses the spelling of versions 0.1 and 1; `None` for algorithms that
    /// they ignore.
    pub(super) fn parse_stored(text: &str) -> Option<Self> {
        let value = if let Some(digits) = text.strip_prefix("crc32c:0x") {
            // `from_str_radix` alone would accept a sign.
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u32::from_str_radix(digits, 16).ok().map(Self::Crc32c))
        } else if let Some(digits) = text.strip_prefix("sha256:") {
            Some(hex(digits).map(Self::Sha256))
        } else {
            return None;
        };
        Some(
            value
                .flatten()
                .unwrap_or_else(|| Self::Unreadable(text.into())),
        )
    }

    /// Parses the spelling of version 2.
    pub(super) fn parse_decoded(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        if let Some(digits) = text.strip_prefix("xxh3:") {
            return hex(digits).map(u64::from_be_bytes).map(Self::Xxh3);
        }
        hex(text.strip_prefix("sha256:")?).map(Self::Sha256)
    }

    /// Returns the spelling of versions 0.1 and 1.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Crc32c(value) => format!("crc32c:0x{value:08X}"),
            Self::Sha256(value) => value.iter().fold(String::from("sha256:"), |text, byte| {
                text + &format!("{byte:02x}")
            }),
            Self::Xxh3(value) => format!("xxh3:{value:016x}"),
            Self::Unreadable(text) => text.clone(),
        }
    }

    /// Returns whether this is the digest of the bytes that `feed` passes to its
    /// argument piece by piece.
    pub(super) fn agrees_with<E>(
        &self,
        feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>,
    ) -> Result<bool, E> {
        Ok(match self {
            Self::Crc32c(value) => {
                let mut crc = CRC32C.digest();
                feed(&mut |piece| crc.update(piece))?;
                agrees(*value, crc.finalize())
            }
            Self::Sha256(value) => {
                let mut sha256 = Sha256::new();
                feed(&mut |piece| sha256.update(piece))?;
                agrees(*value, sha256.finalize().into())
            }
            Self::Xxh3(value) => agrees(*value, checksum_fed(feed)?),
            Self::Unreadable(_) => false,
        })
    }

    fn check(&self, bytes: &[u8]) -> Result<()> {
        if let Self::Unreadable(text) = self {
            return Err(Error::malformed(
                Rule::ZTensorChecksumText,
                format!(
                    "the value of the checksum `{}` is invalid",
                    text.escape_default()
                ),
            ));
        }
        let is_right = self.agrees_with(|add| {
            add(bytes);
            Ok::<_, Error>(())
        })?;
        if is_right {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::ZTensorChecksum,
            "the bytes do not match their checksum: the file is damaged",
        ))
    }
}

impl Checksum {
    /// Checks `bytes` if the checksum covers bytes of the kind `covers`.
    pub(super) fn check(&self, covers: Covers, bytes: &[u8]) -> Result<()> {
        if self.covers == covers {
            self.digest.check(bytes)
        } else {
            Ok(())
        }
    }
}

/// Returns the XXH3 of a version 2 manifest.
pub(super) fn xxh3(bytes: &[u8]) -> u64 {
    checksum([bytes])
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Parses exactly 2 N hexadecimal digits.
fn hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(value(pair[0])? << 4 | value(pair[1])?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_texts() {
        // "123456789" is the standard test input for CRCs, and 0xE3069283 is its published
        // CRC-32C.
        let digest = PartDigest::of(DigestKind::Crc32c, b"123456789");
        assert_eq!(digest.to_text(), "crc32c:0xE3069283");
        assert_eq!(PartDigest::parse_stored("crc32c:0xe3069283"), Some(digest));
        assert_eq!(
            PartDigest::parse_stored("crc32c:0x1F"),
            Some(PartDigest::Crc32c(0x1F))
        );
        for text in [
            "crc32c:0x",
            "crc32c:0x+1",
            "crc32c:0x123456789",
            "sha256:00",
        ] {
            let digest = PartDigest::parse_stored(text);
            assert_eq!(digest, Some(PartDigest::Unreadable(text.into())));
        }
        assert_eq!(PartDigest::parse_stored("md5:00"), None);
    }

    #[test]
    fn digests_of_version_2_are_in_lower_case() {
        let text = "xxh3:00000000000000ff";
        assert_eq!(PartDigest::parse_decoded(text), Some(PartDigest::Xxh3(255)));
        for text in ["xxh3:00000000000000FF", "xxh3:ff", "crc32c:0x00000000"] {
            assert_eq!(PartDigest::parse_decoded(text), None, "{text}");
        }
    }
}
