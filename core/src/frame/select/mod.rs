//! Chooses how the encoder represents a tensor: the frame family, the transform and
//! the codecs to try on each plane.
//!
//! The choice is deterministic: the same tensor and options give the same frame,
//! regardless of the engine's thread count and the available memory. No decoder depends
//! on this module.
//!
//! In this module, a *search* is zstd coding with matches, in contrast to Huffman coding
//! alone. *Codes* are Huffman codes; they are short if a plane takes few bits per byte.
//!
//! The thresholds in these files are set by hand. `cargo xtask sizes` shows their
//! combined effect on variants of all-MiniLM-L6-v2 (`docs/benchmarks.md`, "Packed
//! sizes"), and `tests/rust/codecs/encoder_choice.rs` bounds the loss from quick samples.
//! Only the block sizes in `frame/z4ai/recipe.rs` have been measured one by one.

use alloc::vec::Vec;
use core::ops::Range;

use crate::TensorRef;
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::z4ai::{self, Recipe};
use crate::frame::{Families, Family};
use ranking::{Elements, Ranking};
use sample::Content;

mod estimate;
mod plane_choice;
mod ranking;
mod repeats;
mod sample;
mod small_tensor;
mod structured;
mod zara;

/// Tensors of up to this many bytes are not sampled. All their bytes are counted,
/// and if the counts are inconclusive, every codec is tried.
const SMALL_BYTES: usize = 16 << 10;

/// The smallest frame found for a tensor, among the families that the options allow.
pub enum EncodedTensor<'a> {
    /// Coded planes that are not yet assembled.
    Planes(z4ai::EncodedPlanes<'a>),
    /// A finished frame, usually of another family.
    Whole(Vec<u8>),
}

impl<'a> EncodedTensor<'a> {
    /// Encodes `tensor`.
    ///
    /// A packer that encodes a tensor of more than 16 KiB plane by plane gets the
    /// same frame by following [`Choice`].
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: TensorRef<'a>,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let options = options.into();
        if tensor.bytes.len() <= SMALL_BYTES
            && options.effort != Effort::Max
            && let Some(planes) = small_tensor::encode(engine, tensor, options)
        {
            return match structured::extension(engine, tensor, options) {
                Some(frame) if frame.len() < planes.len_bytes() => Self::Whole(frame),
                _ => Self::Planes(planes),
            };
        }
        Self::from_choice(engine, tensor, Choice::new(engine, tensor, options))
    }

    fn from_choice<E: PackEngine>(engine: &E, tensor: TensorRef<'a>, choice: Choice) -> Self {
        let (recipe, other) = match choice {
            Choice::Whole(frame) => return Self::Whole(frame),
            Choice::Planes(recipe, other) => (recipe, other),
        };
        let planes = z4ai::EncodedPlanes::new(engine, tensor.bytes, &recipe);
        match other {
            Some(other) if other.len() < planes.len_bytes() => Self::Whole(other),
            _ => Self::Planes(planes),
        }
    }

    /// Returns the length of the frame.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Planes(planes) => planes.len_bytes(),
            Self::Whole(frame) => frame.len(),
        }
    }

    /// Writes the frame to `out`.
    ///
    /// # Panics
    /// If the length of `out` is not [`Self::len_bytes`].
    pub fn write<E: PackEngine>(&self, engine: &E, out: &mut [u8]) {
        match self {
            Self::Planes(planes) => planes.write(engine, out),
            Self::Whole(frame) => out.copy_from_slice(frame),
        }
    }

    fn into_frame<E: PackEngine>(self, engine: &E) -> Vec<u8> {
        match self {
            Self::Planes(planes) => planes.to_frame(engine),
            Self::Whole(frame) => frame,
        }
    }
}

/// Encodes `tensor` and returns its frame.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: TensorRef,
    options: impl Into<EncodeOptions>,
) -> Vec<u8> {
    EncodedTensor::new(engine, tensor, options).into_frame(engine)
}

/// Returns the size in bytes of the elements that a transform separates into planes,
/// or `None` for dtypes that do not gain from that.
fn element_bytes(dtype: Option<Dtype>) -> Option<u8> {
    match dtype?.len_bytes()? {
        // A complex number consists of two floats.
        8 if dtype == Some(Dtype::C64) => Some(4),
        width @ (2 | 4 | 8) => Some(width.to_le_bytes()[0]),
        _ => None,
    }
}

/// The options of the encoder. The default allows only frames that every reader
/// of containers understands, at the default effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The trade-off between packing time and packed size.
    pub effort: Effort,
    /// The frame families that readers of the result support. Frames of the
    /// family `Z4AI` may be used in any case.
    pub families: Families,
    extended: bool,
}

impl EncodeOptions {
    /// Creates options for frames inside containers.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            effort,
            families: Families::CONTAINER,
            extended: false,
        }
    }

    /// Sets the frame families that readers of the result support.
    #[must_use]
    pub fn families(mut self, families: Families) -> Self {
        self.families = families;
        self
    }

    /// Sets whether to allow frames that only zstn reads: `ZXQ1` for
    /// dequantised weights, `ZXI1` for other floats and, in a checkpoint delta,
    /// `ZXD1`.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self.families = match extended {
            true => [Family::Lattice, Family::Intervals]
                .into_iter()
                .fold(self.families, Families::with),
            false => self
                .families
                .without(Family::Lattice)
                .without(Family::Intervals),
        };
        self
    }

    /// Returns whether frames that only zstn reads are allowed.
    #[must_use]
    pub fn is_extended(self) -> bool {
        self.extended
    }
}

impl From<Effort> for EncodeOptions {
    fn from(effort: Effort) -> Self {
        Self::new(effort)
    }
}

/// The trade-off between packing time and packed size. Every effort is lossless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Effort {
    /// Packs as fast as possible.
    Fast,
    /// Balances packing time and size; the default.
    #[default]
    Balanced,
    /// Packs as small as possible.
    Max,
}

impl Effort {
    /// Returns the zstd level for searching a plane.
    fn search_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 19,
        }
    }

    /// Returns the zstd level for the trial on a sample that shows whether a
    /// search is worthwhile.
    fn trial_level(self) -> i32 {
        match self {
            Self::Fast | Self::Balanced => 1,
            Self::Max => 12,
        }
    }

    /// Returns the zstd level for the trial on long samples of a tensor with
    /// repeated content, where low levels miss matches that the final search
    /// finds.
    fn search_trial_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 12,
        }
    }
}

/// The way to encode a tensor.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Use this finished frame.
    Whole(Vec<u8>),
    /// Encode the planes following this recipe. If a finished frame is given, use
    /// the smaller of the two results.
    Planes(Recipe, Option<Vec<u8>>),
}

impl Choice {
    /// Chooses how to encode a tensor that is in memory.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: TensorRef,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let content = Content::Whole(tensor.bytes);
        let estimate =
            Ranking::quick_estimate(engine, content, Elements::of(tensor), options.into());
        let other = structured::smallest(engine, tensor, &estimate);
        let ranking = match &other {
            Some(other) if estimate.is_beaten_by(other.len()) => estimate,
            _ => estimate.refined(engine, content),
        };
        match other {
            Some(other) if ranking.is_beaten_by(other.len()) => Self::Whole(other),
            other => Self::Planes(ranking.best().clone(), other),
        }
    }

    /// Returns the ranges of a tensor of `len_bytes` bytes that
    /// [`Choice::of_samples`] needs. Returns `None` for a tensor that is short
    /// enough for the frames and checks that need every byte; such a tensor must
    /// be in memory.
    #[must_use]
    pub fn samples(len_bytes: u64, options: impl Into<EncodeOptions>) -> Option<Vec<Range<u64>>> {
        let max_bytes = structured::max_bytes(options.into()).max(repeats::MAX_TENSOR_BYTES);
        if len_bytes <= max_bytes as u64 {
            return None;
        }
        let ranges = sample::ranges(index(len_bytes)).into_iter();
        Some(ranges.map(|r| r.start as u64..r.end as u64).collect())
    }

    /// Makes the same choice as [`Choice::new`] for a tensor of `len_bytes` bytes,
    /// which has the dtype and the blocks of `tensor`. `parts` holds the bytes of each range that [`Choice::samples`] returned, in
    /// the same order.
    ///
    /// # Panics
    /// If `parts` lacks one of these ranges.
    #[must_use]
    pub fn of_samples<E: PackEngine>(
        engine: &E,
        len_bytes: u64,
        tensor: TensorRef,
        parts: Vec<Vec<u8>>,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let len_bytes = index(len_bytes);
        let parts: Vec<_> = sample::ranges(len_bytes).into_iter().zip(parts).collect();
        let content = Content::Sampled {
            len_bytes,
            parts: &parts,
        };
        let estimate =
            Ranking::quick_estimate(engine, content, Elements::of(tensor), options.into());
        Self::Planes(estimate.refined(engine, content).best().clone(), None)
    }
}
