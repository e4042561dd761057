//! Statistics of the values of a tensor.

use zstn::Tensor;

use super::super::values;

/// Values shown.
const FIRST: usize = 8;

pub struct Stats {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub first: Vec<f64>,
}

impl Stats {
    /// Returns the statistics of all values but NaN; `None` if there are none, or
    /// if elements of this dtype are not shown as numbers.
    pub fn of(tensor: &Tensor) -> Option<Self> {
        let numbers = values::numbers(tensor)?.filter(|value| !value.is_nan());
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for value in numbers {
            min = min.min(value);
            max = max.max(value);
            sum += value;
            count += 1.0;
        }
        (count > 0.0).then(|| Self {
            min,
            max,
            mean: sum / count,
            first: values::numbers(tensor)
                .map(|all| all.take(FIRST).collect())
                .unwrap_or_default(),
        })
    }

    /// `key  value` lines.
    pub fn facts(&self) -> [(&'static str, String); 4] {
        let first: Vec<String> = self.first.iter().copied().map(number).collect();
        [
            ("min", number(self.min)),
            ("max", number(self.max)),
            ("mean", number(self.mean)),
            ("first", first.join("  ")),
        ]
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if (1e-4..1e6).contains(&size) => format!("{value:.6}"),
        _ => format!("{value:.4e}"),
    }
}
