//! Parses and writes the records of the index, and assembles the index of a
//! file being written (docs/formats/gauss.md 2).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::encode::{GaussTensor, SourceTensor};
use super::encode_shard::EncodedShard;
use super::index::{GaussShard, IndexedTensor, TensorCoding};
use super::{MAGIC, SCALE, decode};
use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::transform::gmm::Mixture;
use crate::{Error, Result, Rule};

/// The length of the record of a raw tensor without name and dimensions.
pub(crate) const MIN_RAW_BYTES: u64 = 8;

/// The version of the format, which is the last digit of the magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u8);

impl Version {
    pub fn read(cursor: &mut Cursor) -> Result<Self> {
        let magic = cursor.take(8, "magic of a Gauss file")?;
        match magic.strip_prefix(&MAGIC) {
            Some(&[digit @ b'1'..=b'4']) => Ok(Self(digit - b'0')),
            _ => Err(Error::malformed(
                Rule::GaussMagic,
                format!(
                    "{} is not the start of a Gauss file of version 1 to 4",
                    crate::frame::printable(magic)
                ),
            )
            .at(0)),
        }
    }

    pub fn digit(self) -> u8 {
        self.0
    }

    /// Returns whether the version has raw tensors, and dtypes in the records
    /// of coded tensors.
    pub(crate) fn has_raw(self) -> bool {
        self.0 >= 3
    }

    fn has_shards(self) -> bool {
        self.0 >= 2
    }

    fn has_scale(self) -> bool {
        self.0 >= 4
    }

    /// Returns the length of the shortest record of a coded tensor: two
    /// components, no name and no dimensions.
    pub(crate) fn least_coded_bytes(self) -> u64 {
        3 + u64::from(self.has_raw())
            + if self.has_shards() { 6 } else { 0 }
            + shard_record_bytes(2)
            - if self.has_scale() { 0 } else { 4 }
    }
}

/// Returns the length of a shard record of version 4.
pub(crate) fn shard_record_bytes(components: u64) -> u64 {
    13 + 24 * components
}

fn name_and_shape(cursor: &mut Cursor) -> Result<(String, Vec<u64>)> {
    let at = cursor.position() as u64;
    let len = u64::from(cursor.u16("length of a name")?);
    let name = cursor.take(len, "name of a tensor")?;
    let name = core::str::from_utf8(name).map_err(|_| {
        Error::malformed(Rule::GaussName, "the name of a tensor is not UTF-8").at(at + 2)
    })?;
    let dimensions = cursor.u8("number of dimensions")?;
    let shape = (0..dimensions)
        .map(|_| cursor.u32("dimension").map(u64::from))
        .collect::<Result<_>>()?;
    Ok((name.into(), shape))
}

fn dtype(cursor: &mut Cursor) -> Result<Dtype> {
    let at = cursor.position() as u64;
    let id = cursor.u8("dtype")?;
    decode::from_id(id).ok_or_else(|| {
        Error::malformed(
            Rule::GaussDtype,
            format!("dtype {id} does not exist, only 0 to 7"),
        )
        .at(at)
    })
}

fn check_shape(shape: &[u64], dtype: Dtype) -> Result<u64> {
    element_count(shape)
        .filter(|count| count.checked_mul(decode::width(dtype)).is_some())
        .ok_or_else(|| Error::malformed(Rule::GaussShape, "the size of the tensor exceeds 64 bits"))
}

/// Parses the record of a coded tensor. `end` is the offset, relative to the
/// start of the data, at which the data of this tensor begin; it is advanced to
/// their end.
pub fn coded(cursor: &mut Cursor, version: Version, end: &mut u64) -> Result<IndexedTensor> {
    let (name, shape) = name_and_shape(cursor)?;
    let start = *end;
    match body(cursor, version, &shape, end) {
        Ok((dtype, shards)) => Ok(IndexedTensor {
            name,
            dtype,
            shape,
            stored: start..*end,
            coding: TensorCoding::Mixture(shards),
        }),
        Err(error) => Err(error.tensor(&name)),
    }
}

fn body(
    cursor: &mut Cursor,
    version: Version,
    shape: &[u64],
    end: &mut u64,
) -> Result<(Dtype, Vec<GaussShard>)> {
    let dtype = match version.has_raw() {
        true => dtype(cursor)?,
        false => Dtype::F32,
    };
    let at = cursor.position() as u64;
    let (count, shard_rows) = match version.has_shards() {
        true => (
            u64::from(cursor.u16("number of shards")?),
            u64::from(cursor.u32("rows of a shard")?),
        ),
        false => (1, 0),
    };
    let elements = check_shape(shape, dtype)?;
    let shard_elements = shard_elements(shape, count, shard_rows, elements)
        .map_err(|detail| Error::malformed(Rule::GaussShards, detail).at(at))?;
    let mut shards = Vec::new();
    let mut first = 0u64;
    for _ in 0..count {
        let after = elements.min(first.saturating_add(shard_elements));
        shards.push(shard(cursor, version, first..after, end)?);
        first = after;
    }
    Ok((dtype, shards))
}

/// Returns the number of elements in every shard but the last, which has the
/// remaining ones.
fn shard_elements(
    shape: &[u64],
    count: u64,
    shard_rows: u64,
    elements: u64,
) -> Result<u64, String> {
    match (count, shape) {
        (0, _) => Err("a coded tensor has no shards".into()),
        (1, _) => Ok(elements),
        (_, [rows, columns @ ..])
            if (count - 1) * shard_rows < *rows && *rows <= count * shard_rows =>
        {
            // `shard_rows` is at most the number of rows, so the product fits
            // like the tensor's size.
            Ok(element_count(columns).map_or(0, |columns| columns.saturating_mul(shard_rows)))
        }
        _ => Err(format!(
            "{count} shards of {shard_rows} rows do not match the shape {shape:?}"
        )),
    }
}

fn shard(
    cursor: &mut Cursor,
    version: Version,
    elements: core::ops::Range<u64>,
    end: &mut u64,
) -> Result<GaussShard> {
    let at = cursor.position() as u64;
    let count = cursor.u8("number of components")?;
    if count < 2 {
        return Err(Error::malformed(
            Rule::GaussMixture,
            format!("{count} components are too few; a mixture has at least two"),
        )
        .at(at));
    }
    let mut floats = |what| -> Result<Vec<f64>> {
        (0..count)
            .map(|_| cursor.u64(what).map(f64::from_bits))
            .collect()
    };
    let mixture = Mixture {
        weights: floats("weights of the components")?,
        means: floats("means of the components")?,
        deviations: floats("deviations of the components")?,
    };
    check_mixture(&mixture)
        .map_err(|detail| Error::malformed(Rule::GaussMixture, detail).at(at))?;
    let at = cursor.position() as u64;
    let scale = match version.has_scale() {
        true => cursor.u32("residual scale")?,
        false => SCALE,
    };
    if scale == 0 {
        return Err(Error::malformed(Rule::GaussScale, "the residual scale is 0").at(at));
    }
    let index_words = cursor.u32("words of the index stream")?;
    let residual_words = cursor.u32("words of the residual stream")?;
    let start = *end;
    // The sum saturates only for more records than any file can hold: 2^32
    // tensors of 2^16 shards of 2^35 bytes.
    *end = end.saturating_add(4 * (u64::from(index_words) + u64::from(residual_words)));
    Ok(GaussShard {
        mixture,
        scale,
        elements,
        index_words,
        residual_words,
        stored: start..*end,
    })
}

fn check_mixture(mixture: &Mixture) -> Result<(), &'static str> {
    if !mixture.weights.iter().all(|w| w.is_finite() && *w >= 0.0) {
        return Err("a component's weight is negative or not finite");
    }
    let total = mixture.total_weight();
    if !total.is_normal() {
        return Err("the components' weights have no usable sum");
    }
    if !mixture.means.iter().all(|mean| mean.is_finite()) {
        return Err("a component's mean is not finite");
    }
    if !mixture.deviations.iter().all(|d| d.is_finite() && *d > 0.0) {
        return Err("a component's deviation is not a positive number");
    }
    Ok(())
}

/// Parses the record of a raw tensor.
pub fn raw(cursor: &mut Cursor, end: &mut u64) -> Result<IndexedTensor> {
    let (name, shape) = name_and_shape(cursor)?;
    let mut rest = || {
        let dtype = dtype(cursor)?;
        let at = cursor.position() as u64;
        let len = u64::from(cursor.u32("length of a raw tensor")?);
        let expected = check_shape(&shape, dtype)? * decode::width(dtype);
        if len != expected {
            return Err(Error::malformed(
                Rule::GaussRawLength,
                format!("{len} bytes are stored where shape and dtype require {expected}"),
            )
            .at(at));
        }
        Ok((dtype, len))
    };
    let (dtype, len) = rest().map_err(|error: Error| error.tensor(&name))?;
    let start = *end;
    *end = end.saturating_add(len);
    Ok(IndexedTensor {
        name,
        dtype,
        shape,
        stored: start..*end,
        coding: TensorCoding::Raw,
    })
}

/// The record of a tensor in an index that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenTensor {
    is_raw: bool,
    record: Vec<u8>,
}

/// A file being written. The index comes first in the file but is complete
/// last, so a caller that encodes tensors one at a time has to buffer their
/// data. The file consists of the bytes that [`GaussWriter::finish`] returns,
/// the data of the coded tensors, and the bytes of the raw tensors, each in the
/// order of the calls to [`GaussWriter::add`].
#[derive(Debug, Clone, Default)]
pub struct GaussWriter {
    names: BTreeSet<String>,
    coded: Index,
    raw: Index,
}

#[derive(Debug, Clone, Default)]
struct Index {
    count: u32,
    records: Vec<u8>,
}

impl GaussWriter {
    /// Creates a file without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor, whose name must be new.
    pub fn add(&mut self, encoded: &GaussTensor) -> Result<()> {
        let name = &encoded.report.name;
        if !self.names.insert(name.clone()) {
            return Err(Error::invalid_input("two tensors have this name").tensor(name));
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

impl WrittenTensor {
    fn new(source: &SourceTensor, dtype: Dtype, is_raw: bool) -> Result<Self> {
        fits(source.name, source.shape)?;
        let mut record = len_u16(source.name.len()).to_le_bytes().to_vec();
        record.extend_from_slice(source.name.as_bytes());
        record.extend(u8::try_from(source.shape.len()));
        for &dimension in source.shape {
            record.extend_from_slice(&len_u32(dimension)?.to_le_bytes());
        }
        record.extend(decode::id(dtype));
        Ok(Self { is_raw, record })
    }

    pub(super) fn raw(source: &SourceTensor, dtype: Dtype) -> Result<Self> {
        let mut entry = Self::new(source, dtype, true)?;
        let len = len_u32(source.bytes.len() as u64).map_err(|e| e.tensor(source.name))?;
        entry.record.extend_from_slice(&len.to_le_bytes());
        Ok(entry)
    }

    pub(super) fn coded(
        source: &SourceTensor,
        shard_rows: u32,
        shards: &[EncodedShard],
    ) -> Result<Self> {
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

pub(crate) fn len_u32(len: u64) -> Result<u32> {
    u32::try_from(len).map_err(|_| {
        Error::unsupported(format!(
            "the length {len} exceeds the 32 bits of lengths in Gauss files"
        ))
    })
}
