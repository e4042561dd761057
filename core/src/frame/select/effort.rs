//! How much time packing may take for how much space.

/// Packing time against packed size. Every effort is lossless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
    /// Level of zstd where a search is tried.
    pub(super) fn search_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 19,
        }
    }

    /// Level of the trial on a sample, which tells whether a search pays.
    pub(super) fn trial_level(self) -> i32 {
        match self {
            Self::Fast | Self::Balanced => 1,
            Self::Max => 12,
        }
    }
}
