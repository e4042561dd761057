//! Extension frames: which tensors may be stored in one, and the format version
//! of a file (docs/formats/extensions.md).

use core::ops::Range;

use super::FileCatalog;
use super::format::AnyContents;
use crate::frame::{Edition, Family, difference};

/// A family of extension frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Extension {
    /// `ZXQ1`: every element is stored as a value of a small grid, to be
    /// multiplied with the scale of its group.
    Lattice,
    /// `ZXI1`: the numbers of the tensor are divided into intervals, which are coded.
    Intervals,
    /// `ZXD1`: the difference between the tensor and the base's tensor is
    /// stored.
    Difference,
}

impl Extension {
    /// Every variant.
    pub const ALL: [Self; 3] = [Self::Lattice, Self::Intervals, Self::Difference];

    /// The number of bytes of a frame that [`Extension::of_frame`] examines.
    pub const HEAD_BYTES: u64 = 4;

    /// Returns the family of the frame that begins with `head`, or `None` if it
    /// is not an extension frame.
    #[must_use]
    pub fn of_frame(head: &[u8]) -> Option<Self> {
        if head.starts_with(&difference::MAGIC) {
            return Some(Self::Difference);
        }
        match Family::recognise(head) {
            Some(Family::Lattice) => Some(Self::Lattice),
            Some(Family::Intervals) => Some(Self::Intervals),
            _ => None,
        }
    }

    /// Returns the name of the family in JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lattice => "lattice",
            Self::Intervals => "intervals",
            Self::Difference => "difference",
        }
    }
}

impl FileCatalog {
    /// Returns the edition of a ZSTN or Z4DM file, or `None` for other formats.
    #[must_use]
    pub fn edition(&self) -> Option<Edition> {
        match &self.contents {
            AnyContents::Zstn(contents) => Some(contents.edition),
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => Some(contents.edition),
            _ => None,
        }
    }

    /// Returns the version of a ZSTN or Z4DM file, or `None` for other formats.
    #[must_use]
    pub fn version(&self) -> Option<u8> {
        let edition = self.edition()?;
        match &self.contents {
            AnyContents::Zstn(_) => Some(crate::container::zstn::version(edition)),
            _ => Some(crate::container::model_delta::version(edition)),
        }
    }

    /// Returns the range of the file that contains the first bytes of the frame
    /// of tensor `number`, for [`Extension::of_frame`]. Returns `None` if the
    /// tensor cannot be in an extension frame, because the version of the file
    /// does not allow it or the tensor has no frame of its own.
    #[must_use]
    pub fn frame_head(&self, number: usize) -> Option<Range<u64>> {
        if self.edition().unwrap_or_default() < Edition::Extended {
            return None;
        }
        let tensor = self.tensors.get(number)?;
        let frame = match &self.contents {
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => contents.frame(number)?,
            _ => tensor.stored.clone(),
        };
        let has_own = tensor.alias_of.is_none() && frame.end - frame.start >= Extension::HEAD_BYTES;
        has_own.then_some(frame.start..frame.start + Extension::HEAD_BYTES)
    }
}
