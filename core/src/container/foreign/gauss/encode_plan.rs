//! The options of the encoder, and those decisions about storing a tensor that
//! do not depend on its bytes (docs/formats/gauss.md 4 to 6).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::decode;
use super::encode::RawReason;
use super::encode::SourceTensor;
use super::record::{fits, len_u32};
use crate::dtype::Dtype;
use crate::{Error, Result, bytes};

/// The options of the encoder. The defaults are the same as in gauss-compress
/// 0.1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaussOptions {
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
    /// The number of quantisation steps per unit; decoded values differ from
    /// the original by at most half a step. The default is 1000, and 128 for
    /// bfloat16, whatever the magnitude of the values.
    pub scale: Option<u32>,
    /// The names of the tensors to store; `None` stores all of them.
    pub layers: Option<Vec<String>>,
    /// True if tensors are coded even if their raw bytes would be smaller.
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

impl Default for GaussOptions {
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

impl GaussOptions {
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

/// The decisions made before a tensor is encoded.
#[derive(Debug, Clone)]
pub struct EncodePlan {
    /// The dtype in the file.
    pub dtype: Dtype,
    pub element_count: u64,
    pub route: Route,
}

#[derive(Debug, Clone)]
pub enum Route {
    Raw(RawReason),
    Coded {
        /// The number of rows in a shard, or 0 if the tensor is not sharded.
        shard_rows: u32,
        /// The length of a shard in bytes; the last shard may be shorter.
        shard_len_bytes: usize,
        count: usize,
    },
}

/// Returns the number of shards that a tensor will be coded in, or 0 if it
/// stays raw. This does not depend on its bytes; encoding may still find that
/// the tensor is smaller raw.
///
/// # Errors
/// A tensor that no Gauss file can store.
pub fn shard_count(
    name: &str,
    dtype: Dtype,
    shape: &[u64],
    options: &GaussOptions,
) -> Result<usize> {
    let plan = EncodePlan::new(name, dtype, shape, options);
    Ok(plan.map_err(|error| error.tensor(name))?.shard_count())
}

impl EncodePlan {
    /// Returns the plan for a tensor, and checks the length of its bytes.
    pub fn of(source: &SourceTensor, options: &GaussOptions) -> Result<Self> {
        let plan = Self::new(source.name, source.dtype, source.shape, options)?;
        if plan.element_count * decode::width(plan.dtype) != source.bytes.len() as u64 {
            return Err(Error::invalid_input(format!(
                "{} bytes do not make a tensor of shape {:?} and dtype {}",
                source.bytes.len(),
                source.shape,
                source.dtype
            )));
        }
        Ok(plan)
    }

    fn new(name: &str, dtype: Dtype, shape: &[u64], options: &GaussOptions) -> Result<Self> {
        let stored = stored_dtype(dtype, options)?;
        let element_count = crate::tensor::element_count(shape).filter(|count| {
            let len = count.checked_mul(decode::width(stored));
            len.is_some_and(|len| usize::try_from(len).is_ok())
        });
        let Some(element_count) = element_count else {
            return Err(Error::invalid_input(format!(
                "a tensor of shape {shape:?} and dtype {dtype} is too long for the address \
                 space of this machine"
            )));
        };
        fits(name, shape)?;
        let small = shape.len() == 1 || element_count < options.raw_threshold || element_count == 0;
        let route = if !decode::is_float(stored) {
            Route::Raw(RawReason::Integers)
        } else if small {
            Route::Raw(RawReason::Small)
        } else {
            shards(stored, shape, element_count, options)?
        };
        if matches!(route, Route::Raw(_)) {
            len_u32(element_count * decode::width(stored))?;
        }
        Ok(Self {
            dtype: stored,
            element_count,
            route,
        })
    }

    pub fn shard_count(&self) -> usize {
        match self.route {
            Route::Raw(_) => 0,
            Route::Coded { count, .. } => count,
        }
    }

    pub fn shards<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, len) = match self.route {
            Route::Raw(_) => (&bytes[..0], 1),
            Route::Coded {
                shard_len_bytes, ..
            } => (bytes, shard_len_bytes),
        };
        bytes.chunks(len)
    }
}

fn stored_dtype(dtype: Dtype, options: &GaussOptions) -> Result<Dtype> {
    if decode::id(dtype).is_some() {
        return Ok(dtype);
    }
    match (options.other_dtypes, decode::signed_of_same_width(dtype)) {
        (OtherDtypes::AsSigned, Some(signed)) => Ok(signed),
        (_, signed) => Err(Error::unsupported(format!(
            "Gauss files cannot store {dtype}; leave the tensor out{}",
            match signed {
                Some(signed) => format!(" or store its bytes as {signed}"),
                None => String::new(),
            }
        ))),
    }
}

fn shards(
    dtype: Dtype,
    shape: &[u64],
    element_count: u64,
    options: &GaussOptions,
) -> Result<Route> {
    let (rows, shard_rows) = match shape {
        [rows, _, ..] if element_count > options.shard_threshold => {
            (*rows, u64::from(options.shard_rows).min(*rows))
        }
        _ => (1, 0),
    };
    let count = rows.div_ceil(shard_rows.max(1));
    if u16::try_from(count).is_err() {
        return Err(Error::invalid_input(format!(
            "{rows} rows need {count} shards of {shard_rows} rows; a Gauss file has at most 65535 \
             shards per tensor, so use more rows per shard"
        )));
    }
    let row_len_bytes = element_count * decode::width(dtype) / rows;
    Ok(Route::Coded {
        // This is at most the option's value, which has 32 bits.
        shard_rows: u32::try_from(shard_rows).unwrap_or(options.shard_rows),
        shard_len_bytes: bytes::index(row_len_bytes * shard_rows.max(1)),
        count: bytes::index(count),
    })
}
