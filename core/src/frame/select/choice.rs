//! What is done with a tensor, as far as that can be told before its planes are
//! coded.

use alloc::vec::Vec;

use super::{Effort, Ranking, alternatives};
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::z4ai::Recipe;

/// What to do with a tensor.
#[derive(Debug, Clone)]
pub enum Choice {
    /// This frame is it.
    Whole(Vec<u8>),
    /// Planes by this recipe, unless the frame, if there is one, turns out to
    /// be smaller.
    Planes(Recipe, Option<Vec<u8>>),
}

impl Choice {
    /// For a tensor of any size.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: &[u8],
        dtype: Option<Dtype>,
        effort: Effort,
    ) -> Self {
        let glance = Ranking::glance(engine, tensor, dtype, effort);
        let other = alternatives::smallest(engine, tensor, &glance);
        let ranking = match &other {
            Some(other) if glance.is_beaten_by(other.len()) => glance,
            _ => glance.settled(engine, tensor),
        };
        Self::of(&ranking, other)
    }

    /// With what is known of a tensor, and a frame of another kind.
    pub(super) fn of(ranking: &Ranking, other: Option<Vec<u8>>) -> Self {
        match other {
            Some(other) if ranking.is_beaten_by(other.len()) => Self::Whole(other),
            other => Self::Planes(ranking.best().clone(), other),
        }
    }
}
