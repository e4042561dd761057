//! The options of the encoder.

use super::Effort;
use crate::frame::{Families, Family};

/// The options of the encoder. The default allows only frames that every reader
/// of containers understands, at the default effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The trade-off between packing time and packed size.
    pub effort: Effort,
    /// The frame families that readers of the result support. Frames of the
    /// family `Z4AI` may be used in any case.
    pub families: Families,
    extended: bool,
}

impl EncodeOptions {
    /// Creates options for frames inside containers.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            effort,
            families: Families::CONTAINER,
            extended: false,
        }
    }

    /// Allows other frame families.
    #[must_use]
    pub fn families(mut self, families: Families) -> Self {
        self.families = families;
        self
    }

    /// Sets whether to allow frames that only zstn reads: `ZXQ1` for
    /// dequantised weights and, in a checkpoint delta, `ZXD1`.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self.families = match extended {
            true => self.families.with(Family::Lattice),
            false => self.families.without(Family::Lattice),
        };
        self
    }

    /// Returns whether frames that only zstn reads are allowed.
    #[must_use]
    pub fn is_extended(self) -> bool {
        self.extended
    }
}

impl From<Effort> for EncodeOptions {
    fn from(effort: Effort) -> Self {
        Self::new(effort)
    }
}
