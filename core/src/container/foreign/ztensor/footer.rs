//! Finds the version and the manifest of a file (docs/formats/ztensor.md 1, 2,
//! 7.1, 7.2 and 8.1).

use alloc::format;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::checksum::xxh3;
use crate::bytes::Cursor;
use crate::checksum::agrees;
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The number of bytes at the end of a file that [`ZTensorFooter::parse`] requires. Of
/// a shorter file, it requires all bytes.
pub const FOOTER_BYTES: u64 = 40;

const MAGIC_V0: [u8; 8] = *b"ZTEN0001";
const MAGIC_V1: [u8; 8] = *b"ZTEN1000";
const MAGIC_V2: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// The alignment of blobs in version 2, and the offset of the first.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Returns the first bytes of a version 0.1 file.
pub(super) fn magic() -> [u8; 8] {
    MAGIC_V0
}

/// The versions of the formats called zTensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ZTensorVersion {
    /// Version 0.1, the only version that this library writes.
    V0_1,
    /// Version 1.0.
    V1_0,
    /// Versions 1.1 and 1.2.
    V1_1,
    /// Version 2.
    V2,
}

impl ZTensorVersion {
    /// Returns the version number in its usual spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V2 => "2",
        }
    }
}

/// The information in the first and the last bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZTensorFooter {
    /// The version of the format.
    pub version: ZTensorVersion,
    /// The range of the manifest in the file.
    pub manifest: Range<u64>,
    /// The range of the file that blobs may occupy.
    pub blobs: Range<u64>,
    /// The XXH3 of the manifest, in version 2.
    hash: Option<u64>,
}

impl ZTensorFooter {
    /// Parses both ends of a file of `file_len_bytes`. `head` contains at least
    /// its first 8 bytes, `tail` its last [`FOOTER_BYTES`].
    pub fn parse(head: &[u8], tail: &[u8], file_len_bytes: u64) -> Result<Self> {
        let footer = match head.first_chunk() {
            Some(&MAGIC_V0) => {
                let end = footer_start(file_len_bytes, 8, 8)?;
                let len_bytes = length(tail, 8)?;
                if len_bytes == 0 && end > 8 {
                    // To old readers, no metadata means no tensors. With bytes
                    // before the footer, the file must have been cut off in its
                    // padding.
                    return Err(Error::malformed(
                        Rule::ZTensorFooter,
                        "the file ends with zeros where the length of its metadata is expected; \
                         it looks cut off",
                    )
                    .at(end));
                }
                Self::after_blobs(ZTensorVersion::V0_1, len_bytes, end, 64)
            }
            Some(&MAGIC_V1) if file_len_bytes >= 16 && tail.ends_with(&MAGIC_V1) => {
                let end = footer_start(file_len_bytes, 8, 16)?;
                Self::after_blobs(ZTensorVersion::V1_1, length(tail, 16)?, end, 8)
            }
            Some(&MAGIC_V1) => {
                let end = footer_start(file_len_bytes, 8, 8)?;
                Self::after_blobs(ZTensorVersion::V1_0, length(tail, 8)?, end, 8)
            }
            Some(&MAGIC_V2) => Self::version_2(head, tail, file_len_bytes),
            _ => Err(Error::malformed(
                Rule::ZTensorMagic,
                "the file begins like a zTensor file, but of a version that does not exist",
            )
            .at(0)),
        }?;
        let len_bytes = footer.manifest.end - footer.manifest.start;
        if len_bytes > HEADER_LEN_BYTES {
            return Err(Error::limit(format!(
                "metadata of {len_bytes} bytes are over the cap of {HEADER_LEN_BYTES}"
            )));
        }
        Ok(footer)
    }

    /// Creates the footer of versions 0 and 1, whose manifest of `len_bytes`
    /// ends at offset `end`.
    fn after_blobs(version: ZTensorVersion, len_bytes: u64, end: u64, blobs: u64) -> Result<Self> {
        match end.checked_sub(len_bytes) {
            Some(start) if start >= 8 => Ok(Self {
                version,
                manifest: start..end,
                blobs: blobs..start,
                hash: None,
            }),
            _ => Err(Error::malformed(
                Rule::ZTensorFooter,
                format!(
                    "metadata of {len_bytes} bytes do not fit into the file; it looks cut off or \
                     has bytes appended"
                ),
            )
            .at(end)),
        }
    }

    fn version_2(head: &[u8], tail: &[u8], file_len_bytes: u64) -> Result<Self> {
        let [start, len_bytes, hash] = check_version_2(head, tail, file_len_bytes)?;
        let end = file_len_bytes - FOOTER_BYTES;
        let bad = |detail| Error::malformed(Rule::ZTensorFooter, detail).at(end);
        if (start, len_bytes, hash) == (0, 0, 0) {
            return Err(Error::unsupported(
                "this zTensor file contains data for another file and has no list of tensors: \
                 open the file that it belongs to",
            ));
        }
        match start.checked_add(len_bytes) {
            Some(manifest_end)
                if start >= PAGE_BYTES
                    && start.is_multiple_of(PAGE_BYTES)
                    && manifest_end <= end =>
            {
                Ok(Self {
                    version: ZTensorVersion::V2,
                    manifest: start..manifest_end,
                    blobs: PAGE_BYTES..end,
                    hash: Some(hash),
                })
            }
            _ => Err(bad(format!(
                "the footer places the manifest at {start} with {len_bytes} bytes"
            ))),
        }
    }

    /// Checks that the bytes of the manifest have the hash in the footer.
    pub(super) fn check_hash(&self, manifest: &[u8]) -> Result<()> {
        if self.hash.is_none_or(|hash| agrees(hash, xxh3(manifest))) {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::ZTensorManifestHash,
            "the list of tensors does not match the hash in the footer: the file is damaged",
        )
        .at(self.manifest.start))
    }

    /// Checks that a blob of `len_bytes` at offset `start` lies where blobs may
    /// lie.
    pub(super) fn blob(&self, start: u64, len_bytes: u64) -> Result<Range<u64>> {
        let alignment = match self.version {
            ZTensorVersion::V0_1 => 64,
            ZTensorVersion::V1_0 | ZTensorVersion::V1_1 => 1,
            ZTensorVersion::V2 => PAGE_BYTES,
        };
        match start.checked_add(len_bytes) {
            Some(end)
                if start >= self.blobs.start
                    && end <= self.blobs.end
                    && start.is_multiple_of(alignment) =>
            {
                Ok(start..end)
            }
            _ => Err(Error::malformed(
                Rule::ZTensorPlace,
                format!("{len_bytes} bytes at {start} are outside the tensor data"),
            )),
        }
    }
}

/// Checks the magic at both ends of a file of version 2 and its version. Returns
/// the offset, the length and the hash of the manifest, which are zero if there
/// is none.
pub(super) fn check_version_2(head: &[u8], tail: &[u8], file_len_bytes: u64) -> Result<[u64; 3]> {
    if !head.starts_with(&MAGIC_V2) {
        let detail = "the file does not begin with the magic of zTensor 2";
        return Err(Error::malformed(Rule::ZTensorMagic, detail).at(0));
    }
    let end = footer_start(file_len_bytes, 8, FOOTER_BYTES)?;
    let bad = |detail| Error::malformed(Rule::ZTensorFooter, detail).at(end);
    if !tail.ends_with(&MAGIC_V2) {
        return Err(bad(
            "the file does not end with the zTensor magic; it looks cut off or has bytes appended"
                .into(),
        ));
    }
    let mut cursor = Cursor::new(last(tail, FOOTER_BYTES)?);
    let manifest = [
        cursor.u64("manifest offset")?,
        cursor.u64("manifest length")?,
        cursor.u64("manifest hash")?,
    ];
    let version = cursor.u32("version")?;
    if version != 2 {
        return Err(bad(format!("version {version} where 2 is expected")));
    }
    Ok(manifest)
}

/// Returns the offset of the footer; fails if the file has fewer than
/// `head_bytes` before it.
fn footer_start(file_len_bytes: u64, head_bytes: u64, footer_bytes: u64) -> Result<u64> {
    match file_len_bytes.checked_sub(footer_bytes) {
        Some(end) if end >= head_bytes => Ok(end),
        _ => Err(Error::malformed(
            Rule::ZTensorFooter,
            format!("a file of {file_len_bytes} bytes is too short for zTensor; it looks cut off"),
        )),
    }
}

/// Reads the length field that begins `from_end` bytes before the end.
fn length(tail: &[u8], from_end: u64) -> Result<u64> {
    Cursor::new(last(tail, from_end)?).u64("length of the metadata")
}

fn last(tail: &[u8], len_bytes: u64) -> Result<&[u8]> {
    let start = (tail.len() as u64).checked_sub(len_bytes);
    start
        .map(|start| crate::bytes::part(tail, start..tail.len() as u64))
        .ok_or_else(|| Error::invalid_input("the end of the file is missing"))
}
