//! The options of the encoder (docs/formats/gauss.md 4 to 6).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Error, Result};

/// The options of the encoder. The defaults are the same as in gauss-compress
/// 0.1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The number of Gaussians in a mixture.
    pub components: Components,
    /// The largest number of iterations of a fit.
    pub max_iterations: u32,
    /// The largest number of values that a mixture is fitted to. If there are
    /// more, a fixed sample of this size is taken.
    pub fit_samples: u64,
    /// The number of elements above which tensors of two or more dimensions are
    /// sharded.
    pub shard_threshold: u64,
    /// The number of rows in a shard.
    pub shard_rows: u32,
    /// The number of elements below which tensors stay raw.
    pub raw_threshold: u64,
    /// The number of steps per unit; decoded values differ from the original by
    /// at most half a step. The default is 1000, and 128 for bfloat16, whatever
    /// the magnitude of the values.
    pub scale: Option<u32>,
    /// The names of the tensors to store; `None` stores all of them.
    pub layers: Option<Vec<String>>,
    /// True if tensors are coded even where their raw bytes would be smaller.
    pub keep_larger: bool,
    /// The treatment of dtypes that the format cannot name.
    pub other_dtypes: OtherDtypes,
}

/// The number of Gaussians in a mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Components {
    /// Exactly this number, 2 to 255.
    Exactly(u32),
    /// The number among 2, 3, 4, 6, 8 and 16 that makes a shard smallest.
    /// Encoding takes the time of all of them.
    Smallest,
}

/// The treatment of booleans, unsigned integers, 8-bit floats and complex
/// numbers (docs/formats/gauss.md 3 and 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherDtypes {
    /// Such a tensor is an error.
    Refuse,
    /// The bytes are stored as signed integers of the same size.
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
    /// Fails for options with which no valid file can be written.
    pub fn check(&self) -> Result<()> {
        if let Components::Exactly(count) = self.components
            && !(2..=255).contains(&count)
        {
            return Err(Error::invalid_input(format!(
                "{count} components are not possible; a mixture in a Gauss file has 2 to 255"
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
