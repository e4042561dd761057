//! The mean and the spread of values that are given in several parts.

/// The number of values, their mean, and the sum of their squared distances
/// from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub fn of(values: &[f64]) -> Self {
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares = values.iter().map(|value| (value - mean) * (value - mean));
        Self {
            count,
            mean,
            squares: squares.sum(),
        }
    }

    /// Returns the moments of the values of both.
    pub fn join(self, other: Self) -> Self {
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        let share = other.count / count.max(1.0);
        Self {
            count,
            mean: self.mean + apart * share,
            squares: self.squares + other.squares + apart * apart * self.count * share,
        }
    }

    /// Returns the standard deviation.
    pub fn deviation(&self) -> f64 {
        libm::sqrt(self.squares / self.count.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_to_the_same_as_the_whole() {
        let values: [f64; 8] = [1.5, -2.0, 4.0, 4.0, 1e6, 1e6 + 3.0, -7.0, 0.25];
        let whole = Moments::of(&values).deviation();
        for cut in 0..=values.len() {
            let (left, right) = values.split_at(cut);
            let joined = Moments::of(left).join(Moments::of(right)).deviation();
            assert!((joined / whole - 1.0).abs() < 1e-12, "{cut}: {joined}");
        }
        assert!((Moments::of(&[1.0, 3.0]).deviation() - 1.0).abs() < 1e-15);
        assert!(Moments::default().deviation() == 0.0);
    }
}
