//! The index: every tensor, and where its bytes are
//! (docs/formats/gauss.md 2, 11).

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

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Element type, also of what was coded.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Range of the file that holds it.
    pub stored: Range<u64>,
    /// How.
    pub coding: Coding,
}

/// The coding of a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Coding {
    /// Its bytes, unchanged.
    Raw,
    /// Parts of it, each with a mixture of its own; one part if the tensor is
    /// not sharded.
    Mixture(Vec<Shard>),
}

/// Some rows of a tensor, coded on their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Shard {
    /// The mixture its values are members of.
    pub mixture: Mixture,
    /// Steps of a unit: values are within half a step (5).
    pub scale: u32,
    /// Elements of the tensor it holds, in row-major order.
    pub elements: Range<u64>,
    /// Words of the stream that says the components.
    pub index_words: u32,
    /// Words of the stream that says the distances from their means.
    pub residual_words: u32,
    /// Range of the file that holds both.
    pub stored: Range<u64>,
}

impl Shard {
    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        self.elements.end - self.elements.start
    }

    /// Returns the number of elements beyond those that its residual words can
    /// stand for. Real data have none.
    fn unearned_elements(&self) -> u64 {
        // A word more for the state at the end, one for rounding.
        let earned = GAUSS_ELEMENTS_PER_WORD * (u64::from(self.residual_words) + 2);
        self.element_count().saturating_sub(earned)
    }
}

/// Returns `before` plus the number of elements of `shards` that no residual
/// words stand for; an error if there are too many.
pub fn unearned_elements(shards: &[Shard], before: u64) -> Result<u64> {
    let elements = shards.iter().fold(before, |sum, shard| {
        sum.saturating_add(shard.unearned_elements())
    });
    if elements > GAUSS_UNEARNED_ELEMENTS {
        return Err(Error::limit(format!(
            "with this tensor the file has {elements} elements more than its streams can stand \
             for; at most {GAUSS_UNEARNED_ELEMENTS} are accepted"
        )));
    }
    Ok(elements)
}

impl Tensor {
    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // The index's check has shown that this cannot overflow.
        element_count(&self.shape).unwrap_or_default()
    }

    /// Returns the bytes of the tensor itself, little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.element_count() * super::dtypes::width(self.dtype)
    }

    /// Returns the number of bytes that it takes in the file.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Its shards; none if it is raw.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        match &self.coding {
            Coding::Raw => &[],
            Coding::Mixture(shards) => shards,
        }
    }
}

/// The index of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// 1 to 4.
    pub version: u8,
    /// Bytes before the tensors' data.
    pub len_bytes: u64,
    /// Coded tensors first, in file order.
    pub tensors: Vec<Tensor>,
    /// Bytes after the last tensor, which readers ignore.
    pub trailing_bytes: u64,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// Everything but the tensors' data.
    Complete(Index),
    /// The index continues. This many bytes from the start of the file may hold
    /// it: always more than were given, and at most the whole file.
    Needs(u64),
}

impl Index {
    /// Reads the index from `head`, the first bytes of a file of
    /// `file_len_bytes`. The length of an index is not stored, so a caller
    /// supplies more of the file until it is complete.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Parsed> {
        if head.len() as u64 > file_len_bytes {
            return Err(Error::invalid_input("the head is longer than its file"));
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
                Ok(Parsed::Needs(needs.min(file_len_bytes)))
            }
            result => result.map(Parsed::Complete),
        }
    }

    /// Returns the tensor called `name`.
    pub fn find(&self, name: &str) -> Result<&Tensor> {
        self.tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .ok_or_else(|| Error::not_found(name))
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    tensors: Vec<Tensor>,
    /// Tensors of the file, once known.
    expected: u64,
}

impl Parser<'_> {
    fn index(&mut self, file_len_bytes: u64) -> Result<Index> {
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
                    "{} tensors in the header, more than a file of {file_len_bytes} bytes has \
                     room for",
                    coded + raw
                ),
            )
            .at(8));
        }
        self.expected = coded + raw;
        // Data follow the index, so offsets count from 0 until its end is
        // known.
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
        Ok(Index {
            version: version.digit(),
            len_bytes,
            tensors: self.distinct()?,
            trailing_bytes,
        })
    }

    /// Makes offsets relative to the start of the file.
    fn set_data_start(&mut self, data_start: u64) {
        let shift = |range: &mut Range<u64>| {
            // A sum beyond 64 bits is refused with the end of the data.
            range.start = range.start.saturating_add(data_start);
            range.end = range.end.saturating_add(data_start);
        };
        for tensor in &mut self.tensors {
            shift(&mut tensor.stored);
            if let Coding::Mixture(shards) = &mut tensor.coding {
                shards.iter_mut().for_each(|shard| shift(&mut shard.stored));
            }
        }
    }

    fn distinct(&mut self) -> Result<Vec<Tensor>> {
        let mut names = BTreeSet::new();
        for tensor in &self.tensors {
            if !names.insert(tensor.name.as_str()) {
                return Err(
                    Error::malformed(Rule::GaussName, "the name occurs twice").tensor(&tensor.name)
                );
            }
        }
        Ok(core::mem::take(&mut self.tensors))
    }

    /// Returns the length to read next: as much as the records so far suggest,
    /// and at least twice as much as before, so that the work stays linear.
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
