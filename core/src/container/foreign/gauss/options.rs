//! Options of the encoder (docs/formats/gauss.md 4 to 6).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Error, Result};

/// The options of an encoder; the defaults are those of gauss-compress 0.1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Gaussians in a mixture.
    pub components: Components,
    /// The most rounds of a fit.
    pub max_iterations: u32,
    /// The most values that a mixture is fitted to; from more, a fixed sample
    /// is taken.
    pub fit_samples: u64,
    /// Tensors of more elements, and two dimensions or more, are sharded.
    pub shard_threshold: u64,
    /// Rows of a shard.
    pub shard_rows: u32,
    /// Tensors of fewer elements stay raw.
    pub raw_threshold: u64,
    /// Steps of a unit: values come back within half a step. By default 1000,
    /// and 128 for bfloat16, whatever the size of the values.
    pub scale: Option<u32>,
    /// Names of the tensors to store; all by default.
    pub layers: Option<Vec<String>>,
    /// Codes tensors even where their bytes would be smaller.
    pub keep_larger: bool,
    /// What to do with dtypes that the format cannot name.
    pub other_dtypes: OtherDtypes,
}

/// The number of Gaussians in a mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Components {
    /// Exactly this many, 2 to 255.
    Exactly(u32),
    /// Whichever of 2, 3, 4, 6, 8 and 16 makes a shard smallest; takes the
    /// time of all of them.
    Smallest,
}

/// What to do with booleans, unsigned integers, 8-bit floats and complex
/// numbers (docs/formats/gauss.md 3, 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherDtypes {
    /// The file is refused.
    Refuse,
    /// Their bytes are kept as signed integers of the same width.
    AsSigned,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            components: Components::Exactly(16),
            max_iterations: 100,
            fit_samples: 200_000,
            shard_threshold: 5_000_000,
            shard_rows: 4096,
            raw_threshold: 32768,
            scale: None,
            layers: None,
            keep_larger: false,
            other_dtypes: OtherDtypes::Refuse,
        }
    }
}

impl Options {
    /// Refuses what no file could be made with.
    pub fn check(&self) -> Result<()> {
        if let Components::Exactly(count) = self.components
            && !(2..=255).contains(&count)
        {
            return Err(Error::invalid_input(format!(
                "{count} components; a Gauss file holds mixtures of 2 to 255"
            )));
        }
        let zero = [
            (self.shard_rows == 0, "rows of a shard"),
            (self.scale == Some(0), "scale"),
            (self.fit_samples == 0, "number of values to fit to"),
        ];
        match zero.iter().find(|(is_zero, _)| *is_zero) {
            Some((_, what)) => Err(Error::invalid_input(format!("the {what} must not be 0"))),
            None => Ok(()),
        }
    }

    /// Returns the numbers of components to try.
    pub(super) fn counts(&self) -> Vec<u8> {
        match self.components {
            Components::Exactly(count) => u8::try_from(count).into_iter().collect(),
            Components::Smallest => [2, 3, 4, 6, 8, 16].into(),
        }
    }
}
