//! Which tensors are stored in extension frames, and which version of a format a
//! file has (docs/formats/extensions.md).

use core::ops::Range;

use super::FileCatalog;
use super::format::AnyContents;
use crate::frame::{Edition, Family, difference};

/// A kind of extension frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Extension {
    /// `ZXQ1`: a grid of values times scales.
    Lattice,
    /// `ZXD1`: a difference from the base's tensor.
    Difference,
}

impl Extension {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Lattice, Self::Difference];

    /// Number of first bytes of a frame that [`Extension::of_frame`] looks at.
    pub const HEAD_BYTES: u64 = 4;

    /// Returns the kind of a frame with these first bytes; `None` if it is not an
    /// extension frame.
    #[must_use]
    pub fn of_frame(head: &[u8]) -> Option<Self> {
        if head.starts_with(&difference::MAGIC) {
            return Some(Self::Difference);
        }
        match Family::recognise(head) {
            Some(Family::Lattice) => Some(Self::Lattice),
            _ => None,
        }
    }

    /// Returns the spelling in JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lattice => "lattice",
            Self::Difference => "difference",
        }
    }
}

impl FileCatalog {
    /// Returns the edition of a ZSTN or Z4DM file; `None` for files of other
    /// kinds, which have none.
    #[must_use]
    pub fn edition(&self) -> Option<Edition> {
        match &self.contents {
            AnyContents::Zstn(contents) => Some(contents.edition),
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => Some(contents.edition),
            _ => None,
        }
    }

    /// Returns the version of a ZSTN or Z4DM file; `None` for files of other
    /// kinds.
    #[must_use]
    pub fn version(&self) -> Option<u8> {
        let edition = self.edition()?;
        match &self.contents {
            AnyContents::Zstn(_) => Some(crate::container::zstn::version(edition)),
            _ => Some(crate::container::model_delta::version(edition)),
        }
    }

    /// Returns the range of the file with the first bytes of the frame of tensor
    /// `number`, for [`Extension::of_frame`]. `None` if the tensor cannot be in an
    /// extension frame: the version of the file does not allow it, or the tensor
    /// has no frame of its own.
    #[must_use]
    pub fn frame_head(&self, number: usize) -> Option<Range<u64>> {
        if self.edition() != Some(Edition::Extended) {
            return None;
        }
        let tensor = self.tensors.get(number)?;
        let frame = match &self.contents {
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => contents.payload(number)?,
            _ => tensor.stored.clone(),
        };
        let has_own = tensor.alias_of.is_none() && frame.end - frame.start >= Extension::HEAD_BYTES;
        has_own.then_some(frame.start..frame.start + Extension::HEAD_BYTES)
    }
}
