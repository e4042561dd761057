//! The other files that contain parts of a version 2 file's tensors
//! (docs/formats/ztensor.md 8.4).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::cbor::Item;
use super::checksum::PartDigest;
use super::footer::{self, FOOTER_BYTES, PAGE_BYTES};
use super::required;
use super::v0::unknown;
use crate::limits::ZTENSOR_SHARDS;
use crate::{Error, Result, Rule};

const MAX_NAME_BYTES: usize = 64;
/// The length of a file with a magic and a footer only.
const MIN_BYTES: u64 = 8 + FOOTER_BYTES;

/// A file that contains parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard {
    /// The name: 1 to 64 letters, digits, dots, underscores and hyphens, the
    /// first of which is no dot.
    pub name: String,
    /// The length of the file in bytes.
    pub len_bytes: u64,
    /// The digest of the whole file.
    pub digest: PartDigest,
}

impl Shard {
    /// Checks that a file of `len_bytes` may be this shard, before its bytes are
    /// read.
    ///
    /// # Errors
    /// [`Rule::ZTensorShard`].
    pub fn check_len(&self, len_bytes: u64) -> Result<()> {
        if len_bytes == self.len_bytes {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::ZTensorShard,
            format!(
                "the file has {len_bytes} bytes, and the list of shards states {}: it is another \
                 file",
                self.len_bytes
            ),
        ))
    }

    /// Returns the ranges of the first and the last bytes of the file, for
    /// [`Shard::check_ends`].
    #[must_use]
    pub fn ends(&self) -> [Range<u64>; 2] {
        [0..8, self.len_bytes - FOOTER_BYTES..self.len_bytes]
    }

    /// Checks the bytes at both ends of the file. Any file of version 2 may be a
    /// shard; a list of tensors in it is not used.
    ///
    /// # Errors
    /// [`Rule::ZTensorMagic`] and [`Rule::ZTensorFooter`].
    pub fn check_ends(&self, head: &[u8], tail: &[u8]) -> Result<()> {
        footer::check_version_2(head, tail, self.len_bytes).map(drop)
    }

    /// Compares the bytes that `feed` passes to its argument, piece by piece,
    /// with the digest of the whole file.
    ///
    /// # Errors
    /// [`Rule::ZTensorShard`], and the errors of `feed`.
    pub fn check_digest<E: From<Error>>(
        &self,
        feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.digest.agrees_with(feed)? {
            return Ok(());
        }
        let detail = "the file does not match its digest in the list of shards: it is damaged or \
                      another file";
        Err(Error::malformed(Rule::ZTensorShard, detail).into())
    }

    /// Returns the range of a blob of `len_bytes` at offset `start`.
    ///
    /// # Errors
    /// [`Rule::ZTensorPlace`] if blobs of the shard cannot lie there.
    pub(super) fn blob(&self, start: u64, len_bytes: u64) -> Result<Range<u64>> {
        match start.checked_add(len_bytes) {
            Some(end)
                if start >= PAGE_BYTES
                    && start.is_multiple_of(PAGE_BYTES)
                    && end <= self.len_bytes - FOOTER_BYTES =>
            {
                Ok(start..end)
            }
            _ => Err(Error::malformed(
                Rule::ZTensorPlace,
                format!(
                    "{len_bytes} bytes at {start} are outside the data of the shard `{}`",
                    self.name
                ),
            )),
        }
    }
}

/// Parses the table of shards. Their names are distinct, as keys of a map are.
pub(super) fn parse(table: Item) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    for entry in table.map("shards")? {
        let (name, item) = entry?;
        if shards.len() == ZTENSOR_SHARDS {
            let detail = format!("the file lists more than {ZTENSOR_SHARDS} shards");
            return Err(Error::limit(detail).at(item.offset()));
        }
        shards.push(shard(name, item).map_err(|error| error.at(item.offset()))?);
    }
    Ok(shards)
}

fn shard(name: &str, item: Item) -> Result<Shard> {
    check_name(name)?;
    let (mut len_bytes, mut digest) = (None, None);
    for entry in item.map("a shard")? {
        let (key, value) = entry?;
        match key {
            "size" => len_bytes = Some(value.unsigned(key)?),
            "digest" => digest = Some(value.text(key)?),
            _ => {}
        }
    }
    let len_bytes = required(len_bytes, "size", item)?;
    if len_bytes < MIN_BYTES {
        return Err(Error::malformed(
            Rule::ZTensorField,
            format!("a shard of {len_bytes} bytes is too short for a file"),
        ));
    }
    let digest = required(digest, "digest", item)?;
    Ok(Shard {
        name: name.into(),
        len_bytes,
        digest: PartDigest::parse_decoded(digest)
            .ok_or_else(|| unknown(Rule::ZTensorChecksumText, "digest", digest))?,
    })
}

fn check_name(name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let has_len = (1..=MAX_NAME_BYTES).contains(&name.len());
    if has_len && !name.starts_with('.') && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::ZTensorName,
        "the name of a shard must be 1 to 64 letters, digits, `.`, `_` or `-`, and not begin \
         with a dot",
    ))
}
