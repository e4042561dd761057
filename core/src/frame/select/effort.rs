//! The trade-off between packing time and packed size.

/// The trade-off between packing time and packed size. Every effort is lossless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Effort {
    /// Packs as fast as possible.
    Fast,
    /// Balances packing time and size; the default.
    #[default]
    Balanced,
    /// Packs as small as possible.
    Max,
}

impl Effort {
    /// Returns the zstd level for searching a plane.
    pub(super) fn search_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 19,
        }
    }

    /// Returns the zstd level for the trial on a sample that shows whether a
    /// search is worthwhile.
    pub(super) fn trial_level(self) -> i32 {
        match self {
            Self::Fast | Self::Balanced => 1,
            Self::Max => 12,
        }
    }

    /// Returns the zstd level for the trial on long samples of a tensor with
    /// repeated content, where low levels miss matches that the final search
    /// finds.
    pub(super) fn search_trial_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 12,
        }
    }
}
