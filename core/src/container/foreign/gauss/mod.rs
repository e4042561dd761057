//! Gauss files, versions 1 to 4 (docs/formats/gauss.md): an index, and then
//! every tensor either unchanged or coded lossily by a mixture of Gaussians.
//!
//! ```text
//! header  magic, numbers of coded and raw tensors
//! index   per tensor: name, shape, dtype; mixtures and lengths if coded
//! data    the streams of the coded tensors, then the raw ones
//! ```
//!
//! To read a file, parse its index with [`GaussIndex::parse`], which requests the
//! bytes it needs and lists the range of each tensor and shard; [`decode`] and
//! [`decode_shard`] restore them. To write a file, encode many tensors at once
//! with [`encode`], or one at a time with [`encode_tensor`] and [`GaussWriter`].

mod decode;
mod encode;
mod encode_plan;
mod encode_shard;
mod index;
mod record;

pub use decode::{decode, decode_shard};
pub use encode::{Errors, RawReason, Report, ShardReport, TensorReport, errors};
pub use encode::{GaussTensor, SourceTensor, encode, encode_tensor};
pub use encode_plan::{Components, GaussOptions, OtherDtypes, shard_count};
pub use index::{GaussIndex, GaussShard, IndexedTensor, ParsedIndex, TensorCoding};
pub use record::GaussWriter;

pub(crate) use super::GAUSS_MAGIC as MAGIC;

/// The number of quantisation steps per unit, in versions before 4 and for most
/// dtypes in version 4 (docs/formats/gauss.md 5).
const SCALE: u32 = 1000;

/// The number of quantisation steps per unit for bfloat16
/// (docs/formats/gauss.md 5).
const BF16_SCALE: u32 = 128;
