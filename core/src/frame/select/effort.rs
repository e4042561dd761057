//! The trade-off between packing time and packed size.

/// The trade-off between packing time and packed size. Every effort is lossless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Effort {
    /// As fast as possible.
    Fast,
    /// The default.
    #[default]
    Balanced,
    /// As small as possible.
    Max,
}

impl Effort {
    /// Returns the zstd level at which a plane is searched.
    pub(super) fn search_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 19,
        }
    }

    /// Returns the zstd level of the trial on a sample, which shows whether a
    /// search pays.
    pub(super) fn trial_level(self) -> i32 {
        match self {
            Self::Fast | Self::Balanced => 1,
            Self::Max => 12,
        }
    }

    /// Returns the zstd level of the trial on long pieces of a tensor that
    /// repeats itself: low levels miss what the search would find.
    pub(super) fn search_trial_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 12,
        }
    }
}
