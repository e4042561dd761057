//! Statistics of a tensor's values.

use serde::{Serialize, Serializer};
use zstn::Tensor;

use super::super::elements;

/// Number of values that are shown.
const FIRST: usize = 8;

/// A value that is shown without loss of precision.
#[derive(Clone, Copy, PartialEq)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

/// Statistics of all values except NaN. If all values are NaN, the extremes and the
/// mean are `None`.
pub struct Stats {
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub mean: Option<f64>,
    pub first: Vec<Number>,
}

impl Stats {
    /// Returns the statistics of a tensor, or `None` if it is empty or its dtype is not
    /// shown as numbers.
    pub fn of(tensor: &Tensor) -> Option<Self> {
        let first = first(tensor)?;
        if first.is_empty() {
            return None;
        }
        let numbers = elements::numbers(tensor)?.filter(|value| !value.is_nan());
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for value in numbers {
            min = min.min(value);
            max = max.max(value);
            sum += value;
            count += 1.0;
        }
        let float = |value| (count > 0.0).then_some(Number::Float(value));
        let long = |pick: fn(Longs<'_>) -> Option<i128>| {
            let integers = elements::long_integers(tensor)?;
            pick(integers).map(Number::Integer)
        };
        Some(Self {
            min: long(|integers| integers.min()).or_else(|| float(min)),
            max: long(|integers| integers.max()).or_else(|| float(max)),
            mean: (count > 0.0).then_some(sum / count),
            first,
        })
    }

    /// Returns the statistics as keys and values.
    pub fn facts(&self) -> [(&'static str, String); 4] {
        let first: Vec<String> = self.first.iter().copied().map(text).collect();
        let known = |number: Option<Number>| number.map_or("–".into(), text);
        [
            ("min", known(self.min)),
            ("max", known(self.max)),
            ("mean", known(self.mean.map(Number::Float))),
            ("first", first.join("  ")),
        ]
    }
}

type Longs<'a> = Box<dyn Iterator<Item = i128> + 'a>;

fn first(tensor: &Tensor) -> Option<Vec<Number>> {
    if let Some(integers) = elements::long_integers(tensor) {
        return Some(integers.take(FIRST).map(Number::Integer).collect());
    }
    let numbers = elements::numbers(tensor)?;
    Some(numbers.take(FIRST).map(Number::Float).collect())
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_none(),
            },
            // JSON has no NaN and no infinity.
            Self::Float(value) if !value.is_finite() => serializer.serialize_none(),
            Self::Float(value) => serializer.serialize_f64(value),
        }
    }
}

fn text(number: Number) -> String {
    match number {
        Number::Integer(value) => value.to_string(),
        Number::Float(value) => match value.abs() {
            0.0 => "0".into(),
            size if (1e-4..1e6).contains(&size) => format!("{value:.6}"),
            _ => format!("{value:.4e}"),
        },
    }
}
