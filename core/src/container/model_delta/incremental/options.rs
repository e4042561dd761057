//! The options for packing a delta.

use crate::frame::select::{Effort, EncodeOptions};

/// The options for packing a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeltaOptions {
    /// The options for encoding tensors.
    pub encode: EncodeOptions,
    /// True if the first bytes of the delta are returned at the end, by
    /// [`prefix`](super::IncrementalDeltaPacker::prefix), for callers that can
    /// still prepend them. Most of the base is then read once instead of twice.
    ///
    /// Options that allow extension frames imply it, since the version of the
    /// file is among these bytes and is only known at the end.
    pub prefix_last: bool,
}

impl DeltaOptions {
    /// Creates the options for the given effort.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            encode: EncodeOptions::new(effort),
            prefix_last: false,
        }
    }

    /// Sets whether extension frames are written where they are smaller
    /// (docs/formats/extensions.md). This implies
    /// [`DeltaOptions::prefix_last`].
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.encode = self.encode.extended(extended);
        self
    }

    pub(super) fn is_prefix_last(&self) -> bool {
        self.prefix_last || self.encode.is_extended()
    }

    /// Sets whether the first bytes of the delta are returned at the end.
    #[must_use]
    pub fn prefix_last(mut self, prefix_last: bool) -> Self {
        self.prefix_last = prefix_last;
        self
    }
}
