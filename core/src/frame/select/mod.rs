//! Chooses how the encoder represents a tensor: the frame family, the transform and
//! the codecs to try on each plane.
//!
//! The choice is deterministic: the same tensor and options give the same frame,
//! regardless of the engine's thread count and the available memory. No decoder
//! depends on this module.
//!
//! The thresholds in these files are set by hand. `cargo xtask sizes` shows their
//! combined effect on variants of all-MiniLM-L6-v2 (`docs/benchmarks.md`, "Packed
//! sizes"), and `tests/rust/codecs/encoder_choice.rs` bounds the loss from quick samples.
//! Only the block sizes in `frame/z4ai/codec.rs` have been measured one by one.

use alloc::vec::Vec;

use crate::TensorRef;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::z4ai;

mod choice;
mod effort;
mod estimate;
mod options;
mod plane_choice;
mod ranking;
mod repeats;
mod sample;
mod small;
mod structured;
mod zara;

pub use choice::Choice;
pub use effort::Effort;
pub use options::EncodeOptions;

use ranking::Ranking;

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
            && let Some(planes) = small::encode(engine, tensor, options)
        {
            return match structured::lattice(engine, tensor, options) {
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
