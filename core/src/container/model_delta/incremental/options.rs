//! How a delta is written.

use crate::frame::select::Effort;

/// How a delta is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeltaOptions {
    /// The effort of the encoder.
    pub effort: Effort,
    /// Whether the first bytes of the delta come last, from
    /// [`prefix`](super::IncrementalDeltaPacker::prefix). For callers that can put them in
    /// front: most of the base is then read once instead of twice.
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

    /// Sets whether the first bytes of the delta come last.
    #[must_use]
    pub fn prefix_last(mut self, prefix_last: bool) -> Self {
        self.prefix_last = prefix_last;
        self
    }
}
