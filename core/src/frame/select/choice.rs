//! The decision about a tensor, as far as it can be made before its planes are
//! coded.

use alloc::vec::Vec;

use super::{EncodeOptions, Ranking, structured};
use crate::TensorRef;
use crate::engine::PackEngine;
use crate::frame::z4ai::Recipe;

/// What to do with a tensor.
#[derive(Debug, Clone)]
pub enum Choice {
    /// A finished frame.
    Whole(Vec<u8>),
    /// Planes by this recipe. If there is a finished frame as well, the smaller
    /// of the two is the result.
    Planes(Recipe, Option<Vec<u8>>),
}

impl Choice {
    /// Chooses for a tensor of any size.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: TensorRef,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        let estimate = Ranking::quick_estimate(engine, tensor, options.into());
        let other = structured::smallest(engine, tensor, &estimate);
        let ranking = match &other {
            Some(other) if estimate.is_beaten_by(other.len()) => estimate,
            _ => estimate.refined(engine, tensor),
        };
        match other {
            Some(other) if ranking.is_beaten_by(other.len()) => Self::Whole(other),
            other => Self::Planes(ranking.best().clone(), other),
        }
    }
}
