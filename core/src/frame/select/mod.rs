//! The encoder's choice: which frame, which transform, and what to try on
//! each plane.
//!
//! Deterministic: the same bytes, dtype and effort give the same frame,
//! whatever the engine's thread count or the memory at hand. No decoder
//! depends on anything here.

use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::z4ai;

mod alternatives;
mod choice;
mod effort;
mod estimate;
mod ranking;
mod repeats;
mod sample;
mod small;
mod standalone;
mod ways;

pub use choice::Choice;
pub use effort::Effort;
pub use standalone::standalone;

use ranking::Ranking;

/// Tensors up to this size are not judged by a sample: counts of all their
/// bytes tell what to do, or else they are coded in every way at hand.
const SMALL_BYTES: usize = 16 << 10;

/// The smallest frame found for a tensor, of the families that a container may
/// hold.
pub enum Encoded<'a> {
    /// Planes, yet to be put together.
    Planes(z4ai::Encoded<'a>),
    /// Another frame.
    Whole(Vec<u8>),
}

impl<'a> Encoded<'a> {
    /// Of `tensor`.
    ///
    /// A packer that codes a tensor plane by plane does what is done here for
    /// tensors over 16 KiB: it follows [`Choice`].
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: &'a [u8],
        dtype: Option<Dtype>,
        effort: Effort,
    ) -> Self {
        if tensor.len() <= SMALL_BYTES
            && effort != Effort::Max
            && let Some(planes) = small::encode(engine, tensor, dtype, effort)
        {
            return Self::Planes(planes);
        }
        Self::chosen(engine, tensor, Choice::new(engine, tensor, dtype, effort))
    }

    fn chosen<E: PackEngine>(engine: &E, tensor: &'a [u8], choice: Choice) -> Self {
        let (recipe, other) = match choice {
            Choice::Whole(frame) => return Self::Whole(frame),
            Choice::Planes(recipe, other) => (recipe, other),
        };
        let planes = z4ai::Encoded::new(engine, tensor, &recipe);
        match other {
            Some(other) if other.len() < planes.len_bytes() => Self::Whole(other),
            _ => Self::Planes(planes),
        }
    }

    /// Length of the frame.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Planes(planes) => planes.len_bytes(),
            Self::Whole(frame) => frame.len(),
        }
    }

    /// Writes the frame to `out`, which is as long.
    ///
    /// # Panics
    /// If it is not.
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

/// The frame of [`Encoded`] in a buffer of its own.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<u8> {
    Encoded::new(engine, tensor, dtype, effort).into_frame(engine)
}

/// Bytes of the elements as they are taken apart; `None` where that is of no
/// use.
fn element_bytes(dtype: Option<Dtype>) -> Option<u8> {
    match dtype?.len_bytes()? {
        // A complex number is two floats.
        8 if dtype == Some(Dtype::C64) => Some(4),
        width @ (2 | 4 | 8) => Some(width.to_le_bytes()[0]),
        _ => None,
    }
}
