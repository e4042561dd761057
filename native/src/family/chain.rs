//! A member of a family as a base, with its own bases.

use zstn_core::sketch::Sketch;

use super::members::Member;
use crate::delta::MAX_BASES;
use crate::{Error, Result};

/// A member of the family and its sketch.
pub(super) struct Candidate {
    pub(super) member: Member,
    pub(super) sketch: Sketch,
}

impl Candidate {
    /// Returns the error for a member that does not match its sketch.
    pub(super) fn stale(&self) -> Error {
        Error::Usage(format!(
            "{} is not the sketch of {}; make it again",
            self.member.sketch, self.member.location
        ))
    }
}

/// Returns a candidate, followed by its base if it is a delta, and so on, up to a
/// candidate that needs no base.
///
/// # Errors
/// A base that is unknown or not in the family; a chain with more than [`MAX_BASES`]
/// files.
pub(super) fn chain<'a>(
    candidate: &'a Candidate,
    all: &'a [Candidate],
) -> Result<Vec<&'a Candidate>> {
    let mut chain = vec![candidate];
    loop {
        let last = chain[chain.len() - 1];
        if !last.member.is_delta() {
            return Ok(chain);
        }
        if chain.len() == MAX_BASES {
            return Err(Error::Usage(format!(
                "it is at the end of a chain of {MAX_BASES} files, the longest that is read; \
                 unpack it and pack it again against a full base"
            )));
        }
        let identity = last.sketch.base().ok_or_else(|| {
            Error::Usage(format!(
                "the sketch of {} does not name its base; make it again with --base",
                last.member.name
            ))
        })?;
        let is_base = |other: &&Candidate| other.sketch.identity() == Some(identity);
        let mut bases: Vec<&Candidate> = all.iter().filter(is_base).collect();
        // Full checkpoints come first.
        bases.sort_by_key(|base| base.member.is_delta());
        let Some(base) = bases.first() else {
            return Err(Error::Usage(format!(
                "the base of {} is not in the family, or its sketch has no digests",
                last.member.name
            )));
        };
        chain.push(base);
    }
}
