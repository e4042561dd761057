//! The part of the decision about a tensor that is made before its planes are
//! encoded.

use alloc::vec::Vec;

use core::ops::Range;

use super::sample::{self, Content};
use super::{EncodeOptions, Ranking, repeats, structured};
use crate::TensorRef;
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::z4ai::Recipe;

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
    /// Chooses for a tensor that is in memory.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: TensorRef,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let content = Content::Whole(tensor.bytes);
        let estimate = Ranking::quick_estimate(engine, content, tensor.dtype, options.into());
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

    /// Makes the same choice as [`Choice::new`] for a tensor of `len_bytes` bytes.
    /// `parts` holds the bytes of each range that [`Choice::samples`] returned, in
    /// the same order.
    ///
    /// # Panics
    /// If `parts` lacks one of these ranges.
    #[must_use]
    pub fn of_samples<E: PackEngine>(
        engine: &E,
        len_bytes: u64,
        dtype: Option<Dtype>,
        parts: Vec<Vec<u8>>,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let len_bytes = index(len_bytes);
        let parts: Vec<_> = sample::ranges(len_bytes).into_iter().zip(parts).collect();
        let content = Content::Sampled {
            len_bytes,
            parts: &parts,
        };
        let estimate = Ranking::quick_estimate(engine, content, dtype, options.into());
        Self::Planes(estimate.refined(engine, content).best().clone(), None)
    }
}
