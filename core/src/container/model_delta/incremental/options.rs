//! Options for packing a delta.

use crate::frame::select::Effort;

/// Options for packing a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeltaOptions {
    /// The effort of the encoder.
    pub effort: Effort,
    /// If set, the first bytes of the delta are returned at the end, by
    /// [`prefix`](super::IncrementalDeltaPacker::prefix), to callers that can
    /// still prepend them. Most of the base is then read once instead of twice.
    pub prefix_last: bool,
}

impl DeltaOptions {
    /// Creates the options for an effort.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            effort,
            prefix_last: false,
        }
    }

    /// Sets whether the first bytes of the delta are returned at the end.
    #[must_use]
    pub fn prefix_last(mut self, prefix_last: bool) -> Self {
        self.prefix_last = prefix_last;
        self
    }
}
