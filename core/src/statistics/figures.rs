//! Figures of a number of elements.

/// Figures of the elements of a tensor or of a band of its rows. Extremes, mean
/// and root mean square are those of the finite elements, as `f64`; NaN if there
/// is none.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Figures {
    /// The number of elements.
    pub count: u64,
    /// Elements that are zero, of either sign.
    pub zeros: u64,
    /// Elements that are not a number.
    pub nans: u64,
    /// Infinite elements of either sign.
    pub infinities: u64,
    /// The least finite element.
    pub min: f64,
    /// The greatest finite element.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The root of the mean of the squares.
    pub rms: f64,
}

impl Figures {
    /// Returns the figures of `count` finite elements between `extremes`, none of them
    /// zero.
    #[must_use]
    pub fn new(count: u64, [min, max]: [f64; 2], mean: f64, rms: f64) -> Self {
        Self {
            min,
            max,
            mean,
            rms,
            ..Self::without_finite(count)
        }
    }

    /// Returns the figures of `count` elements none of which has been looked at.
    pub(super) fn without_finite(count: u64) -> Self {
        Self {
            count,
            zeros: 0,
            nans: 0,
            infinities: 0,
            min: f64::NAN,
            max: f64::NAN,
            mean: f64::NAN,
            rms: f64::NAN,
        }
    }

    /// Returns the number of elements that are neither NaN nor infinite.
    #[must_use]
    pub fn finite(&self) -> u64 {
        self.count - self.nans - self.infinities
    }
}

impl PartialEq for Figures {
    /// Compares to the last bit: figures without finite elements are equal, too.
    fn eq(&self, other: &Self) -> bool {
        let bits = |figures: &Self| {
            let Self {
                min,
                max,
                mean,
                rms,
                ..
            } = figures;
            [min, max, mean, rms].map(|value| value.to_bits())
        };
        let counts = |figures: &Self| {
            [
                figures.count,
                figures.zeros,
                figures.nans,
                figures.infinities,
            ]
        };
        counts(self) == counts(other) && bits(self) == bits(other)
    }
}
