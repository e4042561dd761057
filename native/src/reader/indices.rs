//! The selected indices of one dimension of a tensor.

use std::ops::Range;

/// The selected indices of one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indices {
    /// `count` indices: `start`, `start + step`, `start + 2 * step` and so on. The step
    /// may be negative, but not zero.
    Steps {
        /// The first index.
        start: u64,
        /// The distance from one index to the next.
        step: i64,
        /// The number of indices.
        count: u64,
    },
    /// These indices, in ascending order and each of them once.
    List(Vec<u64>),
}

impl Indices {
    /// Selects the indices of `range`.
    #[must_use]
    pub fn range(range: Range<u64>) -> Self {
        Self::Steps {
            start: range.start,
            step: 1,
            count: range.end.saturating_sub(range.start),
        }
    }

    /// Returns the number of indices.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Steps { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }

    /// Checks that all indices are below `len`, and returns the simplest indices that
    /// are equal to these.
    pub(super) fn checked(self, len: u64) -> Result<Self, String> {
        let outside = |index: &dyn std::fmt::Display| {
            format!("index {index} is outside a dimension of length {len}")
        };
        match &self {
            Self::Steps { count: 0, .. } => Ok(Self::range(0..0)),
            Self::Steps { step: 0, .. } => Err("the step of a selection is zero".into()),
            Self::Steps { start, step, count } => {
                let last = i128::from(*start) + i128::from(*step) * i128::from(count - 1);
                for end in [i128::from(*start), last] {
                    if !(0..i128::from(len)).contains(&end) {
                        return Err(outside(&end));
                    }
                }
                let step = if *count == 1 { 1 } else { *step };
                Ok(Self::Steps {
                    start: *start,
                    step,
                    count: *count,
                })
            }
            Self::List(list) => {
                let (Some(first), Some(last)) = (list.first(), list.last()) else {
                    return Ok(Self::range(0..0));
                };
                if !list.is_sorted_by(|one, next| one < next) {
                    return Err("a list of indices is not in ascending order".into());
                }
                if *last >= len {
                    return Err(outside(last));
                }
                match last - first == self.count() - 1 {
                    true => Ok(Self::range(*first..last + 1)),
                    false => Ok(self),
                }
            }
        }
    }

    /// Returns the lowest index and the distance to the next one; `None` for a list.
    fn ascending(&self) -> Option<(u64, u64)> {
        let Self::Steps { start, step, count } = self else {
            return None;
        };
        let distance = step.unsigned_abs();
        match *step < 0 {
            true => Some((start - distance * (count - 1), distance)),
            false => Some((*start, distance)),
        }
    }

    /// Returns the index that has `rank` lower ones.
    pub(super) fn get(&self, rank: u64) -> Option<u64> {
        match (self, self.ascending()) {
            (Self::List(list), _) => list.get(usize::try_from(rank).ok()?).copied(),
            (_, ascending) => {
                let (first, distance) = ascending?;
                (rank < self.count()).then(|| first + distance * rank)
            }
        }
    }

    /// Returns the number of indices that are lower than `end`.
    pub(super) fn rank(&self, end: u64) -> u64 {
        match (self, self.ascending()) {
            (Self::List(list), _) => list.partition_point(|index| *index < end) as u64,
            (_, Some((first, distance))) => {
                let below = end.saturating_sub(first).div_ceil(distance);
                below.min(self.count())
            }
            _ => 0,
        }
    }

    /// Returns the place in the result of the index that has `rank` lower ones.
    pub(super) fn place(&self, rank: u64) -> u64 {
        match self {
            Self::Steps { step, count, .. } if *step < 0 => count - 1 - rank,
            _ => rank,
        }
    }

    pub(super) fn is_range(&self) -> bool {
        matches!(self, Self::Steps { step: 1, .. })
    }
}
