//! compressed-tensors: sparse and quantised weights in safetensors files,
//! described by the model's `config.json` (docs/formats/compressed-tensors.md).
//!
//! This module does no I/O. [`Config`] parses the text of `config.json`. From
//! it and from the names, dtypes and shapes of all stored tensors (over all
//! shards), [`Checkpoint`] lists the tensors of the dense model. Each
//! [`Weight`] among them names the stored tensors that it is decoded from.
//! [`SparseWriter`] writes the two sparse formats. Comments call the Python
//! package compressed-tensors "the package".

use alloc::string::String;

use serde::{Deserialize, Serialize};

mod bit_packing;
mod bitmask;
mod checkpoint;
mod config;
mod dequantise;
mod geometry;
mod marlin;
mod module_parts;
mod scheme;
mod sparse_writer;
mod targets;
mod weight;

pub use checkpoint::{Checkpoint, CheckpointEntry, Role, TensorSpec, WeightPart};
pub use config::Config;
pub use scheme::{CodeType, Scheme, Strategy};
pub use sparse_writer::{SparseWriter, StoredBytes};
pub use weight::{DenseTensor, Weight};

/// The storage format of a weight. The variants cite the sections of
/// docs/formats/compressed-tensors.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WeightFormat {
    /// The weight is uncompressed.
    Dense,
    /// The nonzero values, with a mask of their positions (section 3).
    SparseBitmask,
    /// Two values of every four, with a mask of their positions (section 4).
    Sparse24Bitmask,
    /// One integer or small float per byte (section 6).
    NaiveQuantized,
    /// Like `NaiveQuantized`, in models with quantised activations (section 6).
    IntQuantized,
    /// Like `IntQuantized`, with 8-bit floats (section 6).
    FloatQuantized,
    /// Integers packed in 32-bit words (section 7).
    PackQuantized,
    /// Four-bit floats with a scale for every 16 elements and one for the whole
    /// tensor (section 8).
    Nvfp4PackQuantized,
    /// Four-bit floats with power-of-two scales (section 8).
    Mxfp4PackQuantized,
    /// Six-bit floats with power-of-two scales (section 8).
    Mxfp6PackQuantized,
    /// Eight-bit floats with power-of-two scales (section 8).
    Mxfp8Quantized,
    /// 2:4 sparse integers, stored in the order of one GPU kernel (section 9).
    Marlin24,
    /// Every group of the configuration names its own format (section 5).
    MixedPrecision,
}

impl WeightFormat {
    const ALL: [Self; 13] = [
        Self::Dense,
        Self::SparseBitmask,
        Self::Sparse24Bitmask,
        Self::NaiveQuantized,
        Self::IntQuantized,
        Self::FloatQuantized,
        Self::PackQuantized,
        Self::Nvfp4PackQuantized,
        Self::Mxfp4PackQuantized,
        Self::Mxfp6PackQuantized,
        Self::Mxfp8Quantized,
        Self::Marlin24,
        Self::MixedPrecision,
    ];

    /// Returns the name of the format in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::SparseBitmask => "sparse-bitmask",
            Self::Sparse24Bitmask => "sparse-24-bitmask",
            Self::NaiveQuantized => "naive-quantized",
            Self::IntQuantized => "int-quantized",
            Self::FloatQuantized => "float-quantized",
            Self::PackQuantized => "pack-quantized",
            Self::Nvfp4PackQuantized => "nvfp4-pack-quantized",
            Self::Mxfp4PackQuantized => "mxfp4-pack-quantized",
            Self::Mxfp6PackQuantized => "mxfp6-pack-quantized",
            Self::Mxfp8Quantized => "mxfp8-quantized",
            Self::Marlin24 => "marlin-24",
            Self::MixedPrecision => "mixed-precision",
        }
    }

    /// Returns the format called `name`, in any spelling that
    /// docs/formats/compressed-tensors.md 1 lists.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name: String = name
            .chars()
            .map(|c| match c {
                '_' | ' ' => '-',
                other => other.to_ascii_lowercase(),
            })
            .collect();
        if name == "dense-sparsity" {
            return Some(Self::Dense);
        }
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns whether the format stores a mask of the positions of its values.
    #[must_use]
    pub fn is_sparse(self) -> bool {
        matches!(self, Self::SparseBitmask | Self::Sparse24Bitmask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name() {
        for format in WeightFormat::ALL {
            assert_eq!(WeightFormat::from_name(format.name()), Some(format));
            let loud = format.name().to_uppercase().replace('-', "_");
            assert_eq!(WeightFormat::from_name(&loud), Some(format));
        }
        assert_eq!(
            WeightFormat::from_name("dense-sparsity"),
            Some(WeightFormat::Dense)
        );
        assert_eq!(WeightFormat::from_name("pack-quantised"), None);
    }
}
