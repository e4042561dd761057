//! Gauss files, versions 1 to 4 (docs/formats/gauss.md): an index, then every
//! tensor either unchanged or, lossily, as members of a mixture of Gaussians.
//!
//! ```text
//! header  magic, how many coded and raw tensors
//! index   per tensor: name, shape, dtype; mixtures and lengths if coded
//! data    the streams of the coded tensors, then the raw ones
//! ```
//!
//! Reading: [`Index::parse`] says which bytes it needs, then which bytes hold
//! each tensor or shard; [`decode`] and [`decode_shard`] restore one. Writing:
//! [`encode`] codes many tensors at once, [`encode_tensor`] and [`Writer`]
//! one by one.

mod decode;
mod dtypes;
mod encode;
mod encode_shard;
mod error_bound;
mod index;
mod moments;
mod options;
mod outliers;
mod plan;
mod record;
mod report;
mod value;
mod writer;

pub use decode::{decode, decode_shard};
pub use encode::{Encoded, Source, encode, encode_tensor};
pub use error_bound::{Errors, errors};
pub use index::{Coding, Index, Parsed, Shard, Tensor};
pub use options::{Components, Options, OtherDtypes};
pub use plan::shard_count;
pub use report::{RawReason, Report, ShardReport, TensorReport};
pub use writer::Writer;

pub(crate) use super::GAUSS_MAGIC as MAGIC;

/// Steps of a unit in versions before 4, and of most dtypes in 4 (5).
const SCALE: u32 = 1000;

/// Steps of a unit for bfloat16 (5).
const BF16_SCALE: u32 = 128;
