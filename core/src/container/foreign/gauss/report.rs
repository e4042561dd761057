//! The encoder's report on each tensor.

use alloc::string::String;
use alloc::vec::Vec;

use crate::dtype::Dtype;

/// A file that was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Length of the file.
    pub len_bytes: u64,
    /// In file order.
    pub tensors: Vec<TensorReport>,
}

/// How one tensor was encoded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorReport {
    /// Name.
    pub name: String,
    /// Dtype in the file.
    pub dtype: Dtype,
    /// Number of elements.
    pub element_count: u64,
    /// Length of the original.
    pub len_bytes: u64,
    /// Length of its data and its mixtures.
    pub stored_len_bytes: u64,
    /// Largest distance between an element and what is read back for it.
    pub max_error: f64,
    /// Root of the mean squared distance.
    pub rms_error: f64,
    /// Standard deviation of its elements, to compare the errors with; 0 if
    /// it is raw.
    pub deviation: f64,
    /// Why it is stored raw, if it is.
    pub raw: Option<RawReason>,
    /// One per shard; none if it is raw.
    pub shards: Vec<ShardReport>,
}

/// How some rows of a tensor were encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardReport {
    /// Gaussians in its mixture.
    pub components: u32,
    /// The number of components added for values far from all others.
    pub added: u32,
    /// Rounds of the fit.
    pub iterations: u32,
    /// Steps of a unit.
    pub scale: u32,
    /// Largest distance between an element and what is read back for it.
    pub max_error: f64,
}

impl TensorReport {
    /// Bits in the file per element.
    #[must_use]
    pub fn bits_per_element(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // a figure for people
        let (bits, count) = (
            self.stored_len_bytes as f64 * 8.0,
            self.element_count as f64,
        );
        if count == 0.0 { 0.0 } else { bits / count }
    }
}

/// Why a tensor is stored unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RawReason {
    /// One dimension, or fewer elements than the threshold.
    Small,
    /// Not a float.
    Integers,
    /// It holds NaN or infinity, or a double beyond single precision.
    NotFinite,
    /// Its values are too far apart for 255 Gaussians at this scale.
    OutOfReach,
    /// Coded it would be larger.
    Smaller,
}

impl RawReason {
    /// Returns the spelling in JSON output and in JavaScript.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Integers => "integers",
            Self::NotFinite => "not_finite",
            Self::OutOfReach => "out_of_reach",
            Self::Smaller => "smaller",
        }
    }
}
