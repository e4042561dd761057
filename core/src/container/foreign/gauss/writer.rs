//! Assembles the index of a file being written (docs/formats/gauss.md 2).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::encode::{Encoded, Source};
use super::encode_shard::EncodedShard;
use super::{MAGIC, dtypes};
use crate::dtype::Dtype;
use crate::{Error, Result};

/// A record of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    is_raw: bool,
    record: Vec<u8>,
}

/// A file being written. The index comes first in the file but is known last,
/// so a caller that encodes tensors one at a time has to buffer their data. The
/// file consists of the bytes that [`Writer::finish`] returns, the data of the
/// coded tensors, and the bytes of the raw tensors, each in the order of the
/// calls to [`Writer::add`].
#[derive(Debug, Clone, Default)]
pub struct Writer {
    names: BTreeSet<String>,
    coded: Index,
    raw: Index,
}

#[derive(Debug, Clone, Default)]
struct Index {
    count: u32,
    records: Vec<u8>,
}

impl Writer {
    /// Creates a file without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor, whose name must be new.
    pub fn add(&mut self, encoded: &Encoded) -> Result<()> {
        let name = &encoded.report.name;
        if !self.names.insert(name.clone()) {
            return Err(Error::invalid_input("the name occurs twice").tensor(name));
        }
        let index = match encoded.entry.is_raw {
            true => &mut self.raw,
            false => &mut self.coded,
        };
        index.count = index.count.checked_add(1).ok_or_else(|| {
            Error::invalid_input("a Gauss file stores fewer than 2^32 coded and 2^32 raw tensors")
        })?;
        index.records.extend_from_slice(&encoded.entry.record);
        Ok(())
    }

    /// Returns the header and the index, which are the first bytes of the file.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut head = MAGIC.to_vec();
        head.push(b'4');
        for index in [&self.coded, &self.raw] {
            head.extend_from_slice(&index.count.to_le_bytes());
        }
        head.extend_from_slice(&self.coded.records);
        head.extend_from_slice(&self.raw.records);
        Ok(head)
    }
}

/// Checks that the name and the shape fit in a record.
pub fn fits(name: &str, shape: &[u64]) -> Result<()> {
    if u16::try_from(name.len()).is_err() {
        return Err(Error::invalid_input(
            "a name in a Gauss file has at most 65535 bytes",
        ));
    }
    if u8::try_from(shape.len()).is_err() || shape.iter().any(|&d| u32::try_from(d).is_err()) {
        return Err(Error::invalid_input(format!(
            "the shape {shape:?} has more than 255 dimensions or one beyond 2^32"
        )));
    }
    Ok(())
}

impl Entry {
    fn new(source: &Source, dtype: Dtype, is_raw: bool) -> Result<Self> {
        fits(source.name, source.shape)?;
        let mut record = len_u16(source.name.len()).to_le_bytes().to_vec();
        record.extend_from_slice(source.name.as_bytes());
        record.extend(u8::try_from(source.shape.len()));
        for &dimension in source.shape {
            record.extend_from_slice(&len_u32(dimension)?.to_le_bytes());
        }
        record.extend(dtypes::id(dtype));
        Ok(Self { is_raw, record })
    }

    pub(super) fn raw(source: &Source, dtype: Dtype) -> Result<Self> {
        let mut entry = Self::new(source, dtype, true)?;
        let len = len_u32(source.bytes.len() as u64).map_err(|e| e.tensor(source.name))?;
        entry.record.extend_from_slice(&len.to_le_bytes());
        Ok(entry)
    }

    pub(super) fn coded(source: &Source, shard_rows: u32, shards: &[EncodedShard]) -> Result<Self> {
        let mut entry = Self::new(source, source.dtype, false)?;
        let record = &mut entry.record;
        record.extend_from_slice(&len_u16(shards.len()).to_le_bytes());
        record.extend_from_slice(&shard_rows.to_le_bytes());
        for shard in shards {
            let mixture = &shard.mixture;
            record.extend(u8::try_from(mixture.len()));
            for floats in [&mixture.weights, &mixture.means, &mixture.deviations] {
                record.extend(floats.iter().flat_map(|float| float.to_le_bytes()));
            }
            record.extend_from_slice(&shard.scale.to_le_bytes());
            for stream in [&shard.index, &shard.residual] {
                let words = len_u32(stream.len() as u64).map_err(|e| e.tensor(source.name))?;
                record.extend_from_slice(&words.to_le_bytes());
            }
        }
        Ok(entry)
    }
}

/// Converts a length that has been checked to fit in 16 bits.
fn len_u16(len: usize) -> u16 {
    u16::try_from(len).expect("a checked length")
}

pub fn len_u32(len: u64) -> Result<u32> {
    u32::try_from(len).map_err(|_| {
        Error::unsupported(format!(
            "the length {len} exceeds the 32 bits of lengths in Gauss files"
        ))
    })
}
