//! The figures of a set of elements.

/// The figures of the elements of a tensor or of a band of its rows. The
/// extremes, the mean and the root mean square are taken over the finite
/// elements; they are NaN if there are none.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Figures {
    /// The number of elements.
    pub count: u64,
    /// The number of elements that are zero, of either sign.
    pub zeros: u64,
    /// The number of elements that are NaN.
    pub nans: u64,
    /// The number of infinite elements, of either sign.
    pub infinities: u64,
    /// The smallest finite element.
    pub min: f64,
    /// The largest finite element.
    pub max: f64,
    /// The mean of the finite elements.
    pub mean: f64,
    /// The root mean square of the finite elements.
    pub rms: f64,
}

impl Figures {
    /// Creates the figures of `count` finite elements between the two extremes,
    /// none of them zero.
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

    /// Returns initial figures for `count` elements: no zeros, NaN or
    /// infinities have been counted, and the extremes and means are NaN.
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

    /// Returns the number of finite elements.
    #[must_use]
    pub fn finite(&self) -> u64 {
        self.count - self.nans - self.infinities
    }
}

impl PartialEq for Figures {
    /// Compares bit by bit, so that figures whose extremes and means are NaN
    /// are equal too.
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
