//! The plan for reading a part of a tensor: the ranges to fetch, and how to
//! decode them.

use alloc::vec::Vec;
use core::ops::Range;

#[cfg(feature = "deltas")]
use super::delta::rows::DeltaPart;
use crate::Result;
use crate::container::zstn::rows::{FrameTable, PartPlan};
use crate::engine::Engine;

/// A plan for reading a part of a tensor. Made by [`FileCatalog::plan`].
///
/// [`FileCatalog::plan`]: super::FileCatalog::plan
#[derive(Debug, Clone)]
pub struct RangePlan {
    ranges: Vec<Range<u64>>,
    way: Way,
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
        Self {
            ranges,
            way: Way::Stored,
        }
    }

    /// Creates the plan for the bytes `span` of a tensor whose frame is at
    /// `start` and has this `table`.
    pub(super) fn of_frame(start: u64, table: &FrameTable, span: Range<u64>) -> Self {
        let plan = table.plan(span);
        let in_file = |range: &Range<u64>| start + range.start..start + range.end;
        Self {
            ranges: plan.ranges().iter().map(in_file).collect(),
            way: Way::Frame(start, plan),
        }
    }

    /// Creates the plan for bytes that depend on the bytes `base` of the base's
    /// tensor and on one range of the file, which may be empty.
    #[cfg(feature = "deltas")]
    pub(super) fn of_delta(stored: Range<u64>, base: Range<u64>, part: DeltaPart) -> Self {
        Self {
            ranges: [stored]
                .into_iter()
                .filter(|range| !range.is_empty())
                .collect(),
            way: Way::Delta { base, part },
        }
    }

    /// Returns the ranges of the file to fetch, in ascending order; no two of
    /// them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the required range of the base's tensor of the same name, or
    /// `None` if the part does not depend on a base.
    #[must_use]
    pub fn base(&self) -> Option<Range<u64>> {
        match &self.way {
            #[cfg(feature = "deltas")]
            Way::Delta { base, .. } => Some(base.clone()),
            _ => None,
        }
    }

    /// Decodes the part from the bytes of [`RangePlan::ranges`] and
    /// [`RangePlan::base`]. Every block is compared with its checksum.
    ///
    /// # Errors [`InvalidInput`](crate::ErrorKind::InvalidInput) if `base` does
    /// not have the planned length, and the rule that damaged bytes break.
    pub fn decode<E: Engine>(
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
                    return Err(crate::Error::invalid_input(
                        "these are not the planned bytes of the base",
                    ));
                }
                part.decode(engine, fetched, base)
            }
        }
    }
}
