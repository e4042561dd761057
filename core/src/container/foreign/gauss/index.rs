//! The index, which lists every tensor and the location of its bytes
//! (docs/formats/gauss.md 2 and 11).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::record::{self, Version};
use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::limits::{GAUSS_ELEMENTS_PER_WORD, GAUSS_UNEARNED_ELEMENTS, HEADER_LEN_BYTES};
use crate::tensor::element_count;
use crate::transform::gmm::Mixture;
use crate::{Error, Result, Rule};

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexedTensor {
    /// The name, unique within the file.
    pub name: String,
    /// The element type. A coded tensor is decoded to it as well.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The range of the file that contains the tensor.
    pub stored: Range<u64>,
    /// The coding of the tensor.
    pub coding: TensorCoding,
}

/// The coding of a tensor's stored bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TensorCoding {
    /// The bytes of the tensor are stored unchanged.
    Raw,
    /// The tensor is coded in shards, each with its own mixture. A tensor that
    /// is not sharded has one.
    Mixture(Vec<GaussShard>),
}

/// A group of rows of a tensor, coded independently of the other groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GaussShard {
    /// The mixture that models the values.
    pub mixture: Mixture,
    /// The number of quantisation steps per unit. Decoded values differ from
    /// the original by at most half a step (docs/formats/gauss.md 5).
    pub scale: u32,
    /// The elements of the tensor in this shard, in row-major order.
    pub elements: Range<u64>,
    /// The number of words in the stream that encodes the component of each
    /// element.
    pub index_words: u32,
    /// The number of words in the stream that encodes the distance of each
    /// element from its component's mean.
    pub residual_words: u32,
    /// The range of the file that contains both streams.
    pub stored: Range<u64>,
}

impl GaussShard {
    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        self.elements.end - self.elements.start
    }

    /// Returns the number of elements beyond those that the residual words can
    /// encode. Real data have none.
    fn unearned_elements(&self) -> u64 {
        // Two words are added: one for the state of the coder at the end of the
        // stream, and one for rounding.
        let earned = GAUSS_ELEMENTS_PER_WORD * (u64::from(self.residual_words) + 2);
        self.element_count().saturating_sub(earned)
    }
}

/// Returns `before` plus the number of elements of `shards` beyond those that
/// their residual words can encode; an error if there are too many.
pub(crate) fn unearned_elements(shards: &[GaussShard], before: u64) -> Result<u64> {
    let elements = shards.iter().fold(before, |sum, shard| {
        sum.saturating_add(shard.unearned_elements())
    });
    if elements > GAUSS_UNEARNED_ELEMENTS {
        return Err(Error::limit(format!(
            "with this tensor the file has {elements} elements more than its streams can encode; \
             at most {GAUSS_UNEARNED_ELEMENTS} are accepted"
        )));
    }
    Ok(elements)
}

impl IndexedTensor {
    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // Parsing the index has checked that this fits in 64 bits.
        element_count(&self.shape).unwrap_or_default()
    }

    /// Returns the length of the decoded tensor, which is little-endian and
    /// row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.element_count() * super::decode::width(self.dtype)
    }

    /// Returns the number of bytes that the tensor takes in the file.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the shards of the tensor; none if it is raw.
    #[must_use]
    pub fn shards(&self) -> &[GaussShard] {
        match &self.coding {
            TensorCoding::Raw => &[],
            TensorCoding::Mixture(shards) => shards,
        }
    }
}

/// The index of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussIndex {
    /// The version of the format, 1 to 4.
    pub version: u8,
    /// The number of bytes before the tensors' data.
    pub len_bytes: u64,
    /// The tensors in file order, which has the coded ones first.
    pub tensors: Vec<IndexedTensor>,
    /// The number of bytes after the last tensor, which readers ignore.
    pub trailing_bytes: u64,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedIndex {
    /// The whole index.
    Complete(GaussIndex),
    /// The index continues. The value is the number of bytes from the start of
    /// the file that may contain it: more than were given, and at most the
    /// whole file.
    Needs(u64),
}

impl GaussIndex {
    /// Parses the index from `head`, the first bytes of a file of
    /// `file_len_bytes`. The length of an index is not stored, so the caller
    /// has to supply more bytes until it is complete.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<ParsedIndex> {
        if head.len() as u64 > file_len_bytes {
            return Err(Error::invalid_input("the head is longer than the file"));
        }
        let mut parser = Parser {
            cursor: Cursor::new(head),
            tensors: Vec::new(),
            expected: 0,
        };
        match parser.index(file_len_bytes) {
            Err(error)
                if error.rule() == Some(Rule::Truncated)
                    && (head.len() as u64) < file_len_bytes =>
            {
                let needs = parser.needs()?;
                Ok(ParsedIndex::Needs(needs.min(file_len_bytes)))
            }
            result => result.map(ParsedIndex::Complete),
        }
    }

    /// Returns the tensor called `name`.
    pub fn find(&self, name: &str) -> Result<&IndexedTensor> {
        self.tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .ok_or_else(|| Error::not_found(name))
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    tensors: Vec<IndexedTensor>,
    /// The number of tensors in the file, once it has been read.
    expected: u64,
}

impl Parser<'_> {
    fn index(&mut self, file_len_bytes: u64) -> Result<GaussIndex> {
        let cursor = &mut self.cursor;
        let version = Version::read(cursor)?;
        let coded = u64::from(cursor.u32("number of coded tensors")?);
        let raw = match version.has_raw() {
            true => u64::from(cursor.u32("number of raw tensors")?),
            false => 0,
        };
        let least = coded * version.least_coded_bytes() + raw * record::MIN_RAW_BYTES;
        if least > file_len_bytes - cursor.position() as u64 {
            return Err(Error::malformed(
                Rule::GaussCount,
                format!(
                    "the header announces {} tensors, more than a file of {file_len_bytes} bytes \
                     can contain",
                    coded + raw
                ),
            )
            .at(8));
        }
        self.expected = coded + raw;
        // The data follow the index, so offsets are relative to the start of
        // the data until the end of the index is known.
        let mut end = 0;
        let mut unearned = 0;
        for _ in 0..coded {
            let tensor = record::coded(cursor, version, &mut end)?;
            unearned = unearned_elements(tensor.shards(), unearned)
                .map_err(|error| error.tensor(&tensor.name))?;
            self.tensors.push(tensor);
        }
        for _ in 0..raw {
            let tensor = record::raw(cursor, &mut end)?;
            self.tensors.push(tensor);
        }
        let len_bytes = cursor.position() as u64;
        self.set_data_start(len_bytes);
        let Some(trailing_bytes) = end
            .checked_add(len_bytes)
            .and_then(|end| file_len_bytes.checked_sub(end))
        else {
            return Err(Error::malformed(
                Rule::GaussPlace,
                format!(
                    "the index of {len_bytes} bytes announces {end} bytes of tensors, but the \
                     file has {file_len_bytes} bytes in all; it looks cut off"
                ),
            ));
        };
        Ok(GaussIndex {
            version: version.digit(),
            len_bytes,
            tensors: self.distinct()?,
            trailing_bytes,
        })
    }

    /// Makes the offsets relative to the start of the file.
    fn set_data_start(&mut self, data_start: u64) {
        let shift = |range: &mut Range<u64>| {
            // A sum beyond 64 bits saturates here, and is refused when the end
            // of the data is checked.
            range.start = range.start.saturating_add(data_start);
            range.end = range.end.saturating_add(data_start);
        };
        for tensor in &mut self.tensors {
            shift(&mut tensor.stored);
            if let TensorCoding::Mixture(shards) = &mut tensor.coding {
                shards.iter_mut().for_each(|shard| shift(&mut shard.stored));
            }
        }
    }

    fn distinct(&mut self) -> Result<Vec<IndexedTensor>> {
        let mut names = BTreeSet::new();
        for tensor in &self.tensors {
            if !names.insert(tensor.name.as_str()) {
                return Err(
                    Error::malformed(Rule::GaussName, "two tensors have this name")
                        .tensor(&tensor.name),
                );
            }
        }
        Ok(core::mem::take(&mut self.tensors))
    }

    /// Returns the number of bytes to read next: an estimate from the records
    /// parsed so far, and at least twice the number read before, so that the
    /// total work stays linear.
    fn needs(&self) -> Result<u64> {
        let have = (self.cursor.position() + self.cursor.remaining()) as u64;
        if have >= HEADER_LEN_BYTES {
            return Err(Error::limit(format!(
                "the index is longer than {HEADER_LEN_BYTES} bytes"
            )));
        }
        let seen = self.tensors.len() as u64;
        let position = self.cursor.position() as u64;
        let guess = if seen == 0 {
            0
        } else {
            u128::from(position) * u128::from(self.expected) / u128::from(seen) * 9 / 8
        };
        let guess = u64::try_from(guess).unwrap_or(u64::MAX);
        Ok(guess.clamp((2 * have).max(4096), HEADER_LEN_BYTES.max(2 * have)))
    }
}
