//! What an encoder may do.

use super::Effort;
use crate::frame::Families;

/// What an encoder may do. The default is what every reader of containers
/// understands, at the default effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The trade-off between packing time and packed size.
    pub effort: Effort,
    /// The frame families that readers of the result know. `Z4AI` is always
    /// among them.
    pub families: Families,
}

impl EncodeOptions {
    /// Creates options for frames inside containers.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            effort,
            families: Families::CONTAINER,
        }
    }

    /// Allows other frame families.
    #[must_use]
    pub fn families(mut self, families: Families) -> Self {
        self.families = families;
        self
    }
}

impl From<Effort> for EncodeOptions {
    fn from(effort: Effort) -> Self {
        Self::new(effort)
    }
}
