//! The encoder's report on each tensor.

use alloc::string::String;
use alloc::vec::Vec;

use crate::dtype::Dtype;

/// The report on a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The length of the file in bytes.
    pub len_bytes: u64,
    /// The reports on the tensors, in file order.
    pub tensors: Vec<TensorReport>,
}

/// The report on one tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorReport {
    /// The name of the tensor.
    pub name: String,
    /// The dtype in the file.
    pub dtype: Dtype,
    /// The number of elements.
    pub element_count: u64,
    /// The length of the original in bytes.
    pub len_bytes: u64,
    /// The length of its data and mixtures in the file, in bytes.
    pub stored_len_bytes: u64,
    /// The largest distance between an element and its decoded value.
    pub max_error: f64,
    /// The root of the mean squared distance.
    pub rms_error: f64,
    /// The standard deviation of the elements, with which the errors can be
    /// compared; 0 for a raw tensor.
    pub deviation: f64,
    /// The reason why the tensor is stored raw, if it is.
    pub raw: Option<RawReason>,
    /// The reports on the shards; none for a raw tensor.
    pub shards: Vec<ShardReport>,
}

/// The report on one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardReport {
    /// The number of Gaussians in the mixture.
    pub components: u32,
    /// The number of components added for values far from all others.
    pub added: u32,
    /// The number of iterations of the fit.
    pub iterations: u32,
    /// The number of steps per unit.
    pub scale: u32,
    /// The largest distance between an element and its decoded value.
    pub max_error: f64,
}

impl TensorReport {
    /// Returns the number of bits in the file per element.
    #[must_use]
    pub fn bits_per_element(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // the result is only displayed
        let (bits, count) = (
            self.stored_len_bytes as f64 * 8.0,
            self.element_count as f64,
        );
        if count == 0.0 { 0.0 } else { bits / count }
    }
}

/// The reason why a tensor is stored unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RawReason {
    /// It has one dimension, or fewer elements than the threshold.
    Small,
    /// Its elements are not floats.
    Integers,
    /// It contains NaN, an infinity, or a double outside the range of single
    /// precision.
    NotFinite,
    /// Its values are too far apart for 255 Gaussians at this scale.
    OutOfReach,
    /// Its raw bytes are not longer than the coded ones.
    Smaller,
}

impl RawReason {
    /// Returns the name of the reason in JSON output and in JavaScript.
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
