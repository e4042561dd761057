//! Sketches: signatures of checkpoints that contain the description of each
//! tensor and a sample of its elements. Two checkpoints can be compared by
//! their sketches without reading either (docs/formats/sketch.md).

use alloc::string::String;
use alloc::vec::Vec;

use crate::container::model_delta::{ShortDigest, short_digest};
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

mod bits;
mod difference;
mod estimate;
mod file;
mod planes;
mod positions;

pub use estimate::Estimate;
pub use positions::runs;

/// The largest file that is read as a sketch, in bytes. A sketch takes less
/// than 1 KB per tensor, and a safetensors header can describe at most about a
/// million tensors.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// A tensor in a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tensor {
    /// The name, unique within the sketch.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The short digest of the tensor's bytes, if it is known.
    pub digest: Option<ShortDigest>,
    len_bytes: u64,
    samples: Vec<u8>,
}

impl Tensor {
    /// Creates the entry of a tensor. `samples` contains the tensor's bytes in
    /// the ranges that [`runs`] returns, concatenated.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a shape that no
    /// tensor can have, or if `samples` does not have the length of the runs.
    pub fn new(
        name: String,
        dtype: Dtype,
        shape: Vec<u64>,
        digest: Option<ShortDigest>,
        samples: Vec<u8>,
    ) -> Result<Self> {
        let Some(len_bytes) = len_bytes(dtype, &shape) else {
            return Err(Error::invalid_input("no tensor has this shape").tensor(&name));
        };
        if samples.len() as u64 != positions::len_bytes(dtype, len_bytes) {
            let detail = "these are not the sampled bytes of the tensor";
            return Err(Error::invalid_input(detail).tensor(&name));
        }
        Ok(Self {
            name,
            dtype,
            shape,
            digest,
            len_bytes,
            samples,
        })
    }

    /// Returns the length of the tensor in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the sampled bytes: the runs of elements, concatenated.
    #[must_use]
    pub fn samples(&self) -> &[u8] {
        &self.samples
    }
}

/// A sketch, the signature of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    original_len_bytes: u64,
    base: Option<ShortDigest>,
    tensors: Vec<Tensor>,
}

impl Sketch {
    /// Creates the sketch of a checkpoint. `original_len_bytes` is the total
    /// length of its safetensors files. If the checkpoint is stored as a delta,
    /// `base` is the [`Sketch::identity`] of the delta's base.
    ///
    /// # Errors
    /// [`Rule::SketchLayout`] if two tensors have the same name.
    pub fn new(
        original_len_bytes: u64,
        base: Option<ShortDigest>,
        mut tensors: Vec<Tensor>,
    ) -> Result<Self> {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let detail = "two tensors have this name";
            return Err(Error::malformed(Rule::SketchLayout, detail).tensor(&pair[0].name));
        }
        Ok(Self {
            original_len_bytes,
            base,
            tensors,
        })
    }

    /// Returns the total length of the checkpoint's safetensors files, in
    /// bytes.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        self.original_len_bytes
    }

    /// Returns the [`Sketch::identity`] of the base, if the sketch was made of
    /// a delta.
    #[must_use]
    pub fn base(&self) -> Option<ShortDigest> {
        self.base
    }

    /// Returns the tensors, sorted by name.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns the tensor called `name`, if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        let found = self.tensors.binary_search_by(|t| t.name.as_str().cmp(name));
        found.ok().map(|number| &self.tensors[number])
    }

    /// Returns a digest of the names, dtypes, shapes and digests of all
    /// tensors. It does not depend on how the checkpoint is stored. `None` if
    /// some tensor has no digest.
    #[must_use]
    pub fn identity(&self) -> Option<ShortDigest> {
        let mut bytes = Vec::new();
        for tensor in &self.tensors {
            file::write_tensor(tensor, &mut bytes);
            tensor.digest?;
        }
        Some(short_digest([bytes.as_slice()]))
    }
}

/// Returns the length of a tensor in bytes; `None` if no tensor has this shape.
fn len_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    let bits = shape
        .iter()
        .try_fold(dtype.bits(), |bits, &len| bits.checked_mul(len))?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// Returns the size of a sampled element in bytes. Dtypes smaller than a byte
/// are sampled byte by byte.
fn element_bytes(dtype: Dtype) -> usize {
    dtype.len_bytes().unwrap_or(1)
}
