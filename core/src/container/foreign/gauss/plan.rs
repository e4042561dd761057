//! Decides how a tensor is stored (docs/formats/gauss.md 4 steps 3 to 5), as
//! far as this does not depend on its bytes.

use alloc::format;
use alloc::string::String;

use super::dtypes;
use super::encode::Source;
use super::options::{Options, OtherDtypes};
use super::report::RawReason;
use super::writer::{fits, len_u32};
use crate::bytes;
use crate::dtype::Dtype;
use crate::{Error, Result};

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
pub fn shard_count(name: &str, dtype: Dtype, shape: &[u64], options: &Options) -> Result<usize> {
    let plan = EncodePlan::new(name, dtype, shape, options);
    Ok(plan.map_err(|error| error.tensor(name))?.shard_count())
}

impl EncodePlan {
    /// Returns the plan for a tensor, and checks the length of its bytes.
    pub fn of(source: &Source, options: &Options) -> Result<Self> {
        let plan = Self::new(source.name, source.dtype, source.shape, options)?;
        if plan.element_count * dtypes::width(plan.dtype) != source.bytes.len() as u64 {
            return Err(Error::invalid_input(format!(
                "{} bytes do not make a tensor of shape {:?} and dtype {}",
                source.bytes.len(),
                source.shape,
                source.dtype
            )));
        }
        Ok(plan)
    }

    fn new(name: &str, dtype: Dtype, shape: &[u64], options: &Options) -> Result<Self> {
        let stored = stored_dtype(dtype, options)?;
        let element_count = crate::tensor::element_count(shape).filter(|count| {
            let len = count.checked_mul(dtypes::width(stored));
            len.is_some_and(|len| usize::try_from(len).is_ok())
        });
        let Some(element_count) = element_count else {
            return Err(Error::invalid_input(format!(
                "the size of shape {shape:?} and dtype {dtype} is beyond this machine's memory"
            )));
        };
        fits(name, shape)?;
        let small = shape.len() == 1 || element_count < options.raw_threshold || element_count == 0;
        let route = if !dtypes::is_float(stored) {
            Route::Raw(RawReason::Integers)
        } else if small {
            Route::Raw(RawReason::Small)
        } else {
            shards(stored, shape, element_count, options)?
        };
        if matches!(route, Route::Raw(_)) {
            len_u32(element_count * dtypes::width(stored))?;
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

fn stored_dtype(dtype: Dtype, options: &Options) -> Result<Dtype> {
    if dtypes::id(dtype).is_some() {
        return Ok(dtype);
    }
    match (options.other_dtypes, dtypes::signed_of_same_width(dtype)) {
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

fn shards(dtype: Dtype, shape: &[u64], element_count: u64, options: &Options) -> Result<Route> {
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
    let row_len_bytes = element_count * dtypes::width(dtype) / rows;
    Ok(Route::Coded {
        // This is at most the option's value, which has 32 bits.
        shard_rows: u32::try_from(shard_rows).unwrap_or(options.shard_rows),
        shard_len_bytes: bytes::index(row_len_bytes * shard_rows.max(1)),
        count: bytes::index(count),
    })
}
