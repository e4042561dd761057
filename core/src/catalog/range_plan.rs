//! Plans the read of a part of a tensor: which ranges of the file the part
//! requires, and how to decode them.

#[cfg(any(feature = "onnx", feature = "tflite"))]
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

#[cfg(feature = "deltas")]
use super::delta::rows::DeltaPart;
use super::format::AnyContents;
use super::zstn::FormatContents;
use super::{FileCatalog, FileTensor};
use crate::bytes::part;
#[cfg(feature = "element-codings")]
use crate::container::foreign::{ElementCoding, Units};
use crate::container::zstn::rows::{FrameTable, PartPlan, PlaneSize};
use crate::engine::Engine;
use crate::{Error, Result};

/// A plan for reading a part of a tensor. Made by [`FileCatalog::plan`].
///
/// [`FileCatalog::plan`]: super::FileCatalog::plan
#[derive(Debug, Clone)]
pub struct RangePlan {
    ranges: Vec<Range<u64>>,
    way: Way,
    /// How the bytes become values, if they are not the values.
    #[cfg(feature = "element-codings")]
    values: Option<Values>,
}

/// Values that are in whole units of `coding`, after `skipped_bytes` decoded bytes.
#[cfg(feature = "element-codings")]
#[derive(Debug, Clone)]
struct Values {
    coding: ElementCoding,
    skipped_bytes: u64,
    len_bytes: u64,
}

#[cfg(feature = "element-codings")]
impl Values {
    /// Decodes the values from the bytes of their units.
    fn decode(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let decoded = self.coding.decode(stored)?;
        let end = self.skipped_bytes + self.len_bytes;
        if end > decoded.len() as u64 {
            return Err(Error::invalid_input(
                "these are not the planned bytes of the tensor",
            ));
        }
        Ok(part(&decoded, self.skipped_bytes..end).to_vec())
    }
}

#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each read, most of the largest variant"
)]
enum Way {
    /// The bytes are stored uncompressed.
    Stored,
    /// The bytes are in a frame at this offset in the file.
    Frame(u64, PartPlan),
    /// The bytes depend on the base's tensor.
    #[cfg(feature = "deltas")]
    Delta {
        /// The required range of the base's tensor.
        base: Range<u64>,
        part: DeltaPart,
    },
}

impl RangePlan {
    /// Creates the plan for bytes that are stored uncompressed at `ranges`.
    pub(super) fn stored(ranges: Vec<Range<u64>>) -> Self {
        Self::new(ranges, Way::Stored)
    }

    fn new(ranges: Vec<Range<u64>>, way: Way) -> Self {
        Self {
            ranges,
            way,
            #[cfg(feature = "element-codings")]
            values: None,
        }
    }

    /// Creates the plan for the bytes `span` of a tensor whose frame is at
    /// `start` and has this `table`.
    pub(super) fn of_frame(start: u64, table: &FrameTable, span: Range<u64>) -> Self {
        let plan = table.plan(span);
        let in_file = |range: &Range<u64>| start + range.start..start + range.end;
        let ranges = plan.ranges().iter().map(in_file).collect();
        Self::new(ranges, Way::Frame(start, plan))
    }

    /// Creates the plan for the bytes `span` of a tensor that is stored at
    /// `start` in units of `coding`.
    #[cfg(feature = "element-codings")]
    pub(super) fn of_units(start: u64, coding: ElementCoding, span: &Range<u64>) -> Self {
        if span.is_empty() {
            return Self::stored(Vec::new());
        }
        let units = coding.units(span);
        let range = start + units.stored.start..start + units.stored.end;
        Self::stored([range].into()).in_units(coding, &units, span)
    }

    /// Returns the plan for the bytes `span` of a tensor. This plan reads the `units` of
    /// `coding` that contain them.
    #[cfg(feature = "element-codings")]
    pub(super) fn in_units(
        mut self,
        coding: ElementCoding,
        units: &Units,
        span: &Range<u64>,
    ) -> Self {
        if coding != ElementCoding::Plain {
            self.values = Some(Values {
                coding,
                skipped_bytes: units.skipped_bytes,
                len_bytes: span.end - span.start,
            });
        }
        self
    }

    /// Creates the plan for bytes that depend on the bytes `base` of the base's
    /// tensor and on one range of the file, which may be empty.
    #[cfg(feature = "deltas")]
    pub(super) fn of_delta(stored: Range<u64>, base: Range<u64>, part: DeltaPart) -> Self {
        let ranges = [stored].into_iter().filter(|range| !range.is_empty());
        Self::new(ranges.collect(), Way::Delta { base, part })
    }

    /// Returns the ranges of the file to fetch, in ascending order; no two of
    /// them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the required range of the base's tensor, or
    /// `None` if the part does not depend on a base.
    #[must_use]
    pub fn base(&self) -> Option<Range<u64>> {
        match &self.way {
            #[cfg(feature = "deltas")]
            Way::Delta { base, .. } => Some(base.clone()),
            _ => None,
        }
    }

    /// Returns the number of bytes of the tensor that are decoded together
    /// ([`PartPlan::band_bytes`]); `None` if the tensor is not stored in blocks.
    #[must_use]
    pub fn band_bytes(&self) -> Option<u64> {
        #[cfg(feature = "element-codings")]
        if self.values.is_some() {
            return None;
        }
        match &self.way {
            Way::Frame(_, plan) => Some(plan.band_bytes()),
            _ => None,
        }
    }

    /// Decodes the part from the bytes of [`RangePlan::ranges`] and
    /// [`RangePlan::base`]. Every block is compared with its checksum.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `base` does not have
    /// the planned length, and the rule that damaged bytes break.
    pub fn decode<E: Engine>(
        &self,
        engine: &E,
        fetched: &[&[u8]],
        base: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        let stored = self.decode_stored(engine, fetched, base);
        #[cfg(feature = "element-codings")]
        if let Some(values) = &self.values {
            return values.decode(&stored?);
        }
        stored
    }

    /// Decodes the bytes that the ranges contain.
    fn decode_stored<E: Engine>(
        &self,
        engine: &E,
        fetched: &[&[u8]],
        base: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        #[cfg(not(feature = "deltas"))]
        let _ = base;
        match &self.way {
            Way::Stored => Ok(fetched.concat()),
            Way::Frame(start, plan) => plan
                .decode(engine, fetched)
                .map_err(|error| error.within(*start)),
            #[cfg(feature = "deltas")]
            Way::Delta { base: span, part } => {
                let base = base.unwrap_or_default();
                if base.len() as u64 != span.end - span.start {
                    return Err(Error::invalid_input(
                        "these are not the planned bytes of the base",
                    ));
                }
                part.decode(engine, fetched, base)
            }
        }
    }
}

/// Removes the values of the padding after the last element.
#[cfg(any(feature = "onnx", feature = "tflite"))]
pub(super) fn without_padding(decoded: Cow<'_, [u8]>, len_bytes: u64) -> Cow<'_, [u8]> {
    let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    match decoded {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..len).unwrap_or(bytes)),
        Cow::Owned(mut bytes) => {
            bytes.truncate(len);
            Cow::Owned(bytes)
        }
    }
}

/// The block tables of a ZSTN file that were fetched with its index, starting
/// at byte `start` of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Tables {
    pub(super) fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = range.start.checked_sub(self.start)?;
        let end = range.end - self.start;
        (end <= self.bytes.len() as u64).then(|| part(&self.bytes, start..end))
    }
}

/// Fails unless `span` lies inside the tensor called `name`.
pub(crate) fn check_inside(name: &str, len_bytes: u64, span: &Range<u64>) -> Result<()> {
    if span.start <= span.end && span.end <= len_bytes {
        return Ok(());
    }
    let Range { start, end } = span;
    let detail = format!("bytes {start} to {end} are not inside the tensor, which has {len_bytes}");
    Err(Error::invalid_input(detail).tensor(name))
}

impl FileCatalog {
    /// Returns the range of the file whose bytes [`FileCatalog::plan`] requires
    /// as the table of tensor `number`, or `None` if `fetched` is enough. Call
    /// this with no bytes first, fetch the range, and call it again with the
    /// fetched bytes until it returns `None`. It returns `None` at once for
    /// tensors without a table, and for tables that were fetched with the
    /// index.
    #[must_use]
    pub fn block_table(&self, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        let tensor = self.tensors.get(number)?;
        self.contents.table(tensor, number, fetched)
    }

    /// Returns the stored size of each plane of tensor `number`. `table`
    /// contains the bytes of the ranges that [`FileCatalog::block_table`] has
    /// returned.
    ///
    /// Returns `None` if the tensor has no table: short, sparse and palette
    /// frames have none, nor do tensors that are not packed or are only a part of
    /// an entry.
    pub fn plane_sizes(
        &self,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<Vec<PlaneSize>>> {
        let tensor = self.tensor(number)?;
        let AnyContents::Zstn(contents) = &self.contents else {
            return Ok(None);
        };
        #[cfg(feature = "virtual-headers")]
        if self.part_of_entry(number).is_some() {
            return Ok(None);
        }
        let table = contents.block_table(tensor, number, table)?;
        Ok(table.map(|table| table.plane_sizes()))
    }

    /// Plans how to read the bytes `span` of tensor `number`. `table` contains
    /// the bytes of the ranges that [`FileCatalog::block_table`] has returned.
    /// Returns `None` if the tensor can only be read as a whole.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the number is out of
    /// bounds or `span` does not lie inside the tensor, and an error of the
    /// format for a damaged table.
    pub fn plan(
        &self,
        number: usize,
        span: Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let tensor = self.tensor(number)?;
        check_inside(&tensor.name, tensor.len_bytes(), &span)?;
        self.plan_inside(number, &span, table)
    }

    /// Plans like [`FileCatalog::plan`], for bytes that are known to lie inside
    /// the tensor.
    pub(crate) fn plan_inside(
        &self,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let tensor = self.tensor(number)?;
        self.contents.plan(tensor, number, span, table)
    }
}

impl FormatContents {
    /// Parses the block table of a tensor from `table`, or from the bytes
    /// fetched with the index. Returns `None` if the tensor has none or its
    /// bytes are missing.
    pub(super) fn block_table(
        &self,
        tensor: &FileTensor,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<FrameTable>> {
        let (number, len) = self.entry(tensor, number);
        let range = self.integrity.as_ref().and_then(|all| all.table(number));
        let Some(range) = range else {
            return Ok(None);
        };
        let Some(bytes) = table.or_else(|| self.tables.get(&range)) else {
            return Ok(None);
        };
        let stored_len = tensor.stored_len_bytes();
        FrameTable::parse(bytes, stored_len, len, self.edition)
            .map(Some)
            .map_err(|error| error.within(range.start).tensor(&tensor.name))
    }
}
