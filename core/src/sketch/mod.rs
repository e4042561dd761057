//! Sketches: the description of each tensor of a checkpoint, and a sample of its
//! elements. Two checkpoints can be compared by
//! their sketches without reading either (docs/formats/sketch.md).

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::container::model_delta::{ShortDigest, short_digest};
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

#[cfg(feature = "mixes")]
mod converted;
#[cfg(feature = "mixes")]
mod counterparts;
mod estimate;
mod file;
mod frame_size;
#[cfg(feature = "mixes")]
mod mixed;
mod signature;

#[cfg(feature = "mixes")]
pub use counterparts::{MIN_BYTES as MIN_COUNTERPART_BYTES, similar};
pub use estimate::SizeEstimate;
#[cfg(feature = "other-formats")]
pub(crate) use file::MAGIC;
pub use signature::{SIGNATURE_HASHES, Signature};

/// The largest file that is read as a sketch, in bytes. A sketch takes less
/// than 1 KB per tensor, and a safetensors header can describe at most about a
/// million tensors.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// A tensor in a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SketchedTensor {
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

impl SketchedTensor {
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
        if samples.len() as u64 != sample_len_bytes(dtype, len_bytes) {
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

/// The sketch of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    original_len_bytes: u64,
    base: Option<ShortDigest>,
    tensors: Vec<SketchedTensor>,
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
        mut tensors: Vec<SketchedTensor>,
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
    pub fn tensors(&self) -> &[SketchedTensor] {
        &self.tensors
    }

    /// Returns the tensor called `name`, if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&SketchedTensor> {
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

/// The number of elements in a run. Fetching a run costs a reader no more than
/// fetching one element, because the bytes of a run are adjacent.
const RUN_ELEMENTS: u64 = 16;
/// The number of elements up to which a tensor is sampled whole.
const WHOLE_ELEMENTS: u64 = 64;
const MIN_RUNS: u64 = 4;
const MAX_RUNS: u64 = 64;
/// A tensor of n elements has √n / `ROOT_PER_RUN` runs, within `MIN_RUNS` and
/// `MAX_RUNS`.
const ROOT_PER_RUN: u64 = 32;
/// The largest number of windows that contain the runs. Each window is read
/// with one request.
const MAX_WINDOWS: u64 = 8;
/// The number of elements of a tensor per window, so that small tensors cost one
/// request. Like all places of samples, it is counted in elements: tensors of
/// different dtypes can then be compared.
const ELEMENTS_PER_WINDOW: u64 = 64 << 10;
/// The tensor is divided into segments of equal length with one window each.
/// The space before a window is the free space of its segment divided by this
/// number. A window in the middle would need two blocks of a packed file,
/// because blocks often meet at the middle of a segment of round length.
const WINDOW_PLACE: u64 = 3;
/// The number of elements in the longest window.
const WINDOW_ELEMENTS: u64 = 8 << 10;
/// 2^64 divided by the golden ratio. Its multiples modulo 2^64 are spread
/// evenly and do not coincide with the period of a matrix.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the byte ranges of a tensor of `len_bytes` bytes that a sketch
/// contains, in ascending order and without overlap.
#[must_use]
pub fn runs(dtype: Dtype, len_bytes: u64) -> Vec<Range<u64>> {
    let unit = element_bytes(dtype) as u64;
    let elements = len_bytes / unit;
    if elements <= WHOLE_ELEMENTS {
        return Vec::from_iter((elements > 0).then(|| 0..elements * unit));
    }
    let (windows, runs_each) = counts(elements);
    let segment = elements / windows;
    let window = segment.min(WINDOW_ELEMENTS);
    let slot = window / runs_each;
    let mut runs = Vec::new();
    for number in 0..windows * runs_each {
        let (in_window, of_window) = (number % runs_each, number / runs_each);
        let start = of_window * segment + (segment - window) / WINDOW_PLACE + in_window * slot;
        let fraction = (number + 1).wrapping_mul(SPREAD) >> 32;
        let start = start + ((fraction * (slot - RUN_ELEMENTS + 1)) >> 32);
        runs.push(start * unit..(start + RUN_ELEMENTS) * unit);
    }
    runs
}

/// Returns the number of windows, and the number of runs in each window.
fn counts(elements: u64) -> (u64, u64) {
    let windows = (elements / ELEMENTS_PER_WINDOW).clamp(1, MAX_WINDOWS);
    let runs = (elements.isqrt() / ROOT_PER_RUN).clamp(MIN_RUNS, MAX_RUNS);
    (windows, runs.div_ceil(windows))
}

/// Returns the total length of [`runs`] in bytes.
fn sample_len_bytes(dtype: Dtype, len_bytes: u64) -> u64 {
    let unit = element_bytes(dtype) as u64;
    let elements = len_bytes / unit;
    if elements <= WHOLE_ELEMENTS {
        return elements * unit;
    }
    let (windows, runs_each) = counts(elements);
    windows * runs_each * RUN_ELEMENTS * unit
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn runs_are_ascending_inside_and_as_long_as_said() {
        let lens = (0..600)
            .chain((9..62).flat_map(|shift| [(1 << shift) - 8, 1 << shift, (1 << shift) + 24]));
        for elements in lens {
            for dtype in [Dtype::U8, Dtype::F4, Dtype::Bf16, Dtype::F32, Dtype::F64] {
                let len = elements / 8 * 8;
                let runs = runs(dtype, len);
                let mut end = 0;
                for run in &runs {
                    assert!(run.start >= end && run.end > run.start, "{dtype} {len}");
                    end = run.end;
                }
                assert!(end <= len);
                let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
                assert_eq!(total, sample_len_bytes(dtype, len), "{dtype} {len}");
                assert!(runs.len() <= 64);
            }
        }
    }

    #[test]
    fn runs_lie_in_few_windows() {
        // A reader joins requests that are less than 64 KiB apart.
        let runs = runs(Dtype::Bf16, 1 << 28);
        let gaps = runs
            .windows(2)
            .filter(|pair| pair[1].start - pair[0].end > 65536);
        assert_eq!((runs.len(), gaps.count()), (64, 7));
    }

    #[test]
    fn positions_are_the_documented_ones() {
        assert_eq!(runs(Dtype::F32, 256), vec![0..256]);
        // 100 elements: slots of 25, with (multiple * 10) >> 32 of jitter.
        let starts: Vec<u64> = runs(Dtype::U8, 100).iter().map(|run| run.start).collect();
        assert_eq!(starts, [6, 27, 58, 79]);
    }
}
