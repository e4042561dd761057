//! Everything before the data: counts, metadata and the list of tensors
//! (docs/formats/gguf.md 1, 2 and 5).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::field_reader::{FieldReader, Read, Stop};
use super::tensor_list::{GgufTensor, Listed, TENSOR_LEAST_BYTES, place};
use super::value::MetadataValue;
use crate::container::foreign::GGUF_MAGIC;
use crate::container::foreign::byte_order::ByteOrder;
use crate::limits::{GGUF_HEADER_LEN_BYTES, GGUF_METADATA_ENTRIES, GGUF_TENSORS};
use crate::{Error, Result, Rule};

/// The least length in bytes of a metadata entry: a key of one character, the
/// type, and a value of one byte.
const ENTRY_LEAST_BYTES: u64 = 8 + 1 + 4 + 1;

/// The length in bytes that is assumed for a tensor of the list that has not
/// been fetched.
const TENSOR_BYTES: u64 = 96;

/// The number of bytes that are requested in addition to an estimate.
const SPARE_BYTES: u64 = 64 << 10;

/// The alignment of a file that does not state one.
const DEFAULT_ALIGNMENT: u32 = 32;

/// A key of the metadata with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetadataEntry<'a> {
    /// The key, unique within the file.
    pub key: &'a str,
    /// The value, in its stored encoding.
    pub value: MetadataValue<'a>,
}

/// The part of a file before the data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GgufHeader<'a> {
    /// The version of the format: 2 or 3.
    pub version: u32,
    /// The order of the bytes of all numbers, including the elements.
    pub order: ByteOrder,
    /// The metadata, in the order of the file.
    pub metadata: Vec<MetadataEntry<'a>>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<GgufTensor>,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug, Clone)]
pub enum ParsedHeader<'a> {
    /// The whole header.
    Complete(GgufHeader<'a>),
    /// The header continues. The value is the number of bytes from the start of
    /// the file that may contain it: more than were given, and at most the
    /// whole file.
    Needs(u64),
}

impl<'a> GgufHeader<'a> {
    /// Parses the header from `head`, the first bytes of a file of
    /// `file_len_bytes`, and checks that every tensor lies inside the file.
    ///
    /// # Errors
    /// The broken rule, with the offset in the file, and
    /// [`Limit`](crate::ErrorKind::Limit) for a header longer than
    /// [`GGUF_HEADER_LEN_BYTES`] or with more metadata than
    /// [`GGUF_METADATA_ENTRIES`].
    pub fn parse(head: &'a [u8], file_len_bytes: u64) -> Result<ParsedHeader<'a>> {
        let have = head.len() as u64;
        if have > file_len_bytes {
            return Err(Error::invalid_input("the head is longer than the file"));
        }
        let mut parser = Parser {
            reader: FieldReader::new(head, file_len_bytes, ByteOrder::Little),
            tensors_left: 0,
        };
        match parser.header() {
            Ok(header) => Ok(ParsedHeader::Complete(header)),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Needs(_)) if have >= GGUF_HEADER_LEN_BYTES => Err(Error::limit(format!(
                "the header is longer than {GGUF_HEADER_LEN_BYTES} bytes, the most that are read"
            ))
            .at(have)),
            Err(Stop::Needs(end)) => {
                let needs = with_spare(have, end, parser.tensors_left);
                let most = GGUF_HEADER_LEN_BYTES.min(file_len_bytes);
                Ok(ParsedHeader::Needs(needs.min(most)))
            }
        }
    }
}

/// Returns the number of bytes to have next, after `have` bytes that were not
/// enough, if the current array ends near `end`. It is at least half as much
/// again, so that the number of requests is bounded.
fn with_spare(have: u64, end: u64, tensors_left: u64) -> u64 {
    let rest = end.saturating_sub(have);
    let rest = rest.saturating_add(rest / 5);
    let tensors = tensors_left.saturating_mul(TENSOR_BYTES);
    let estimate = have
        .saturating_add(rest)
        .saturating_add(tensors)
        .saturating_add(SPARE_BYTES);
    estimate.max(have.saturating_add(have / 2))
}

struct Parser<'a> {
    reader: FieldReader<'a>,
    /// The number of tensors whose entries have not been read, once it is
    /// known.
    tensors_left: u64,
}

impl<'a> Parser<'a> {
    fn header(&mut self) -> Read<GgufHeader<'a>> {
        let reader = &mut self.reader;
        if reader.take(4, "the magic", Rule::Truncated)? != GGUF_MAGIC {
            return Err(Error::malformed(Rule::GgufMagic, "not a GGUF file")
                .at(0)
                .into());
        }
        let version = version(reader)?;
        let at = reader.position();
        let tensor_count = reader.u64("the number of tensors")?;
        let entry_count = reader.u64("the number of metadata entries")?;
        let least_bytes = tensor_count
            .checked_mul(TENSOR_LEAST_BYTES)
            .zip(entry_count.checked_mul(ENTRY_LEAST_BYTES))
            .and_then(|(tensors, entries)| tensors.checked_add(entries));
        if least_bytes.is_none_or(|bytes| bytes > reader.left()) {
            let detail = format!(
                "{tensor_count} tensors and {entry_count} metadata entries do not fit in the file"
            );
            return Err(Error::malformed(Rule::GgufCount, detail).at(at).into());
        }
        if entry_count > GGUF_METADATA_ENTRIES {
            let detail = format!(
                "the file has {entry_count} metadata entries; at most {GGUF_METADATA_ENTRIES} are \
                 read"
            );
            return Err(Error::limit(detail).at(at).into());
        }
        if tensor_count > GGUF_TENSORS {
            let detail =
                format!("the file has {tensor_count} tensors; at most {GGUF_TENSORS} are read");
            return Err(Error::limit(detail).at(at).into());
        }
        self.tensors_left = tensor_count;
        let metadata = self.metadata(entry_count)?;
        let alignment = alignment(&metadata)?;
        let listed = self.listed()?;
        let (end, left) = (self.reader.position(), self.reader.left());
        Ok(GgufHeader {
            version,
            order: self.reader.order,
            metadata,
            tensors: place(listed, self.reader.order, end, end + left, alignment.into())?,
        })
    }

    fn metadata(&mut self, count: u64) -> Read<Vec<MetadataEntry<'a>>> {
        let mut keys = BTreeSet::new();
        let mut entries = Vec::new();
        for _ in 0..count {
            let at = self.reader.position();
            let refuse = |detail| Error::malformed(Rule::GgufKey, detail).at(at);
            let key = self.reader.text("a metadata key", Rule::GgufKey)?;
            if key.is_empty() {
                return Err(refuse("a metadata key is empty".into()).into());
            }
            if !keys.insert(key) {
                return Err(refuse(format!("the metadata key `{key}` occurs twice")).into());
            }
            let value = MetadataValue::read(&mut self.reader)?;
            entries.push(MetadataEntry { key, value });
        }
        Ok(entries)
    }

    fn listed(&mut self) -> Read<Vec<Listed<'a>>> {
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        while self.tensors_left > 0 {
            let tensor = Listed::read(&mut self.reader)?;
            if !names.insert(tensor.name) {
                let detail = "the file has two tensors of this name";
                let error = Error::malformed(Rule::GgufName, detail).at(tensor.at);
                return Err(error.tensor(tensor.name).into());
            }
            all.push(tensor);
            self.tensors_left -= 1;
        }
        Ok(all)
    }
}

/// Reads the version. Its lower half is zero in a big-endian file, which the
/// reader then reads as such.
fn version(reader: &mut FieldReader) -> Read<u32> {
    let at = reader.position();
    let mut version = reader.u32("the version")?;
    if version & 0xffff == 0 {
        reader.order = ByteOrder::Big;
        version = version.swap_bytes();
    }
    match version {
        2 | 3 => Ok(version),
        other => {
            let detail = format!("version {other} of GGUF; this reader knows versions 2 and 3");
            Err(Error::malformed(Rule::GgufVersion, detail).at(at).into())
        }
    }
}

/// Returns the alignment of the data in bytes.
fn alignment(metadata: &[MetadataEntry]) -> Result<u32> {
    const KEY: &str = "general.alignment";
    let Some(entry) = metadata.iter().find(|entry| entry.key == KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let valid = entry.value.as_u32().filter(|n| n.is_power_of_two());
    valid.ok_or_else(|| {
        let value = entry.value.text();
        let detail = format!("`{KEY}` is {value}, not a power of two stored in 32 bits");
        Error::malformed(Rule::GgufAlignment, detail)
    })
}
