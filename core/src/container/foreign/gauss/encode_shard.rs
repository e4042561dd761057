//! Encodes one shard as a mixture and two streams (docs/formats/gauss.md 5 to
//! 8).
//!
//! Outliers are values too far from their component's mean for a residual to
//! encode. The Python encoder clips them, which makes the error unbounded
//! (docs/formats/gauss.md 12). This one assigns them to the component with the
//! nearest mean, and adds components if necessary.

use alloc::vec;
use alloc::vec::Vec;

use super::decode::{self, round_even};
use super::encode::{RawReason, ShardReport};
use super::encode_plan::GaussOptions;
use crate::dtype::Dtype;
use crate::entropy::ans::{Categorical, Encoder, Gaussian, MAX_RESIDUAL};
use crate::transform::gmm::{self, Fit, MIN_DEVIATION, Mixture};

/// The step between those values of a sample that are encoded on trial, to
/// choose between [`assign`] and [`assign_on_grid`].
const TRIAL_STEP: usize = 4;

/// A shard with its fitted mixture and its streams.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedShard {
    pub mixture: Mixture,
    pub scale: u32,
    pub index: Vec<u32>,
    pub residual: Vec<u32>,
    pub report: ShardReport,
    pub squared_error: f64,
    /// The moments of the values.
    pub moments: Moments,
}

impl EncodedShard {
    /// Returns the number of words in both streams.
    pub fn words(&self) -> usize {
        self.index.len() + self.residual.len()
    }

    /// Returns the number of bytes in the index and in the data.
    pub fn len_bytes(&self) -> u64 {
        super::record::shard_record_bytes(self.mixture.len() as u64) + 4 * self.words() as u64
    }
}

/// Encodes the elements of `bytes`, at least one, or returns the reason why
/// they have to stay raw.
pub fn encode(
    dtype: Dtype,
    bytes: &[u8],
    scale: u32,
    options: &GaussOptions,
) -> Result<EncodedShard, RawReason> {
    let values = decode::to_f64(dtype, bytes);
    // The comparison is false for NaN. Squares of single-precision numbers are
    // far from overflowing; squares of doubles are not.
    if !values
        .iter()
        .all(|value| value.abs() <= f64::from(f32::MAX))
    {
        return Err(RawReason::NotFinite);
    }
    let sample = sample(&values, options.fit_samples);
    let coded = options.counts().into_iter().filter_map(|count| {
        let assigned = match &sample {
            None => {
                let fit = gmm::fit(&values, count, options.max_iterations);
                assign(fit, &values, &values, scale)?
            }
            Some(sample) => {
                let fit = gmm::fit_sample(sample.clone(), count, options.max_iterations);
                let len_bytes = |assigned: Option<Assigned>, part: &[f64]| {
                    let coded = with_mixture(dtype, part, assigned?, scale)?;
                    Some(coded.len_bytes())
                };
                // Encoding a part of the sample shows whether the grid saves
                // bytes.
                let part: Vec<f64> = sample.iter().copied().step_by(TRIAL_STEP).collect();
                let plain = len_bytes(assign(fit.clone(), &part, &part, scale), &part);
                let grid = len_bytes(assign_on_grid(fit.clone(), &part, scale), &part);
                match grid.is_some() && (plain.is_none() || grid < plain) {
                    true => assign_on_grid(fit, &values, scale)?,
                    false => assign(fit, &values, &values, scale)?,
                }
            }
        };
        with_mixture(dtype, &values, assigned, scale)
    });
    coded
        .min_by_key(EncodedShard::len_bytes)
        .ok_or(RawReason::OutOfReach)
}

/// Picks one value from each of `most` intervals of equal length, or returns
/// `None` if that would be all values. The positions depend only on the number
/// of values.
fn sample(values: &[f64], most: u64) -> Option<Vec<f64>> {
    let count = values.len() as u64;
    if count <= most {
        return None;
    }
    let bound = |stretch: u64| u128::from(stretch) * u128::from(count) / u128::from(most);
    let place = |stretch: u64| {
        let (start, end) = (bound(stretch), bound(stretch + 1));
        // This is the generator SplitMix64. The upper half of the product is
        // distributed evenly below the length.
        let mut mixed = stretch.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        start + ((u128::from(mixed) * (end - start)) >> 64)
    };
    let places = (0..most).filter_map(|stretch| usize::try_from(place(stretch)).ok());
    Some(places.map(|place| values[place]).collect())
}

/// A mixture, and the component that each value is assigned to.
struct Assigned {
    mixture: Mixture,
    components: Vec<u8>,
    added: u32,
    iterations: u32,
}

/// Assigns a component to each of `values` according to `placed`, which
/// contains the same values, possibly rounded to whole steps.
fn assign(fit: Fit, values: &[f64], placed: &[f64], scale: u32) -> Option<Assigned> {
    let Fit {
        mut mixture,
        iterations,
    } = fit;
    let mut components = vec![0; values.len()];
    gmm::assign(&mixture, placed, &mut components);
    let added = cover_outliers(&mut mixture, values, &mut components, f64::from(scale))?;
    Some(Assigned {
        mixture,
        components,
        added,
        iterations,
    })
}

/// Assigns components after rounding their means and the values to whole steps,
/// so that all values in a step have the same component. Values in a step that
/// two components share would be more expensive to code in both.
fn assign_on_grid(mut fit: Fit, values: &[f64], scale: u32) -> Option<Assigned> {
    let steps = f64::from(scale);
    let nearest = |value: &f64| round_even(value * steps) / steps;
    for mean in &mut fit.mixture.means {
        *mean = nearest(mean);
    }
    let placed: Vec<f64> = values.iter().map(nearest).collect();
    assign(fit, values, &placed, scale)
}

fn with_mixture(
    dtype: Dtype,
    values: &[f64],
    assigned: Assigned,
    scale: u32,
) -> Option<EncodedShard> {
    let Assigned {
        mixture,
        components,
        added,
        iterations,
    } = assigned;
    let steps = f64::from(scale);
    let categorical = Categorical::new(&mixture.probabilities());
    let deviations = mixture.deviations.iter();
    let mut gaussians: Vec<Gaussian> = deviations.map(|d| Gaussian::new(d * steps)).collect();
    let (mut index, mut residuals) = (Encoder::new(), Encoder::new());
    let (mut max_error, mut squared_error) = (0f64, 0f64);
    for (&value, &component) in values.iter().zip(&components).rev() {
        let number = usize::from(component);
        let residual = residual(value, mixture.means[number], steps)?;
        let interval = categorical.interval(component);
        if interval.len == 0 {
            return None;
        }
        index.push(interval);
        residuals.push(gaussians[number].interval(residual));
        let restored = mixture.means[number] + f64::from(residual) / steps;
        let error = (rounded(dtype, restored) - value).abs();
        max_error = max_error.max(error);
        squared_error += error * error;
    }
    // Rounding to half precision or to bfloat16 may have reached infinity.
    if !max_error.is_finite() {
        return None;
    }
    Some(EncodedShard {
        scale,
        index: index.finish(),
        residual: residuals.finish(),
        report: ShardReport {
            components: u32::try_from(mixture.len()).ok()?,
            added,
            iterations,
            scale,
            max_error,
        },
        mixture,
        squared_error,
        moments: Moments::of(values),
    })
}

/// Returns the value that a reader obtains by rounding the exact one to the
/// dtype.
fn rounded(dtype: Dtype, value: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation)] // the rounding is intended
    match dtype {
        Dtype::F32 => f64::from(value as f32),
        Dtype::F16 => decode::f16_to_f64(decode::f16(value)),
        Dtype::Bf16 => f64::from(f32::from_bits(u32::from(decode::bf16(value)) << 16)),
        _ => value,
    }
}

/// Returns the number of quantisation steps per unit (docs/formats/gauss.md 5).
pub fn scale(dtype: Dtype, options: &GaussOptions) -> u32 {
    let usual = match dtype {
        Dtype::Bf16 => super::BF16_SCALE,
        _ => super::SCALE,
    };
    debug_assert!(decode::is_float(dtype), "only floats are coded");
    options.scale.unwrap_or(usual)
}

/// The largest number of components in a shard record.
const MAX_COMPONENTS: usize = 255;

/// Returns the residual of `value` in the component with this `mean`, or `None`
/// if it is too far away.
pub fn residual(value: f64, mean: f64, scale: f64) -> Option<i32> {
    let steps = (value - mean) * scale;
    if steps.abs() > f64::from(MAX_RESIDUAL) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // within 16 bits
    Some(round_even(steps) as i32)
}

/// Makes every value encodable, and returns the number of components added for
/// that, or `None` if the shard would have too many.
pub(crate) fn cover_outliers(
    mixture: &mut Mixture,
    values: &[f64],
    components: &mut [u8],
    scale: f64,
) -> Option<u32> {
    let reaches = |mixture: &Mixture, value: f64, component: u8| {
        residual(value, mixture.means[usize::from(component)], scale).is_some()
    };
    let mut far = Vec::new();
    for (&value, component) in values.iter().zip(components.iter_mut()) {
        if reaches(mixture, value, *component) {
            continue;
        }
        let nearest = nearest(mixture, value);
        if reaches(mixture, value, nearest) {
            *component = nearest;
        } else {
            far.push(value);
        }
    }
    if far.is_empty() {
        return Some(0);
    }
    let before = mixture.len();
    far.sort_unstable_by(f64::total_cmp);
    let mut left = far.as_slice();
    while let Some(&first) = left.first() {
        let last = first + f64::from(2 * MAX_RESIDUAL - 2) / scale;
        let (members, rest) = left.split_at(left.partition_point(|value| *value <= last));
        // The first value may be so far from 0 that adding to it changes
        // nothing. It then gets a component of its own.
        let (members, rest) = if members.is_empty() {
            left.split_at(1)
        } else {
            (members, rest)
        };
        if mixture.len() == MAX_COMPONENTS {
            return None;
        }
        add(mixture, members, values.len());
        left = rest;
    }
    for (&value, component) in values.iter().zip(components.iter_mut()) {
        if !reaches(mixture, value, *component) {
            *component = nearest(mixture, value);
            if !reaches(mixture, value, *component) {
                return None;
            }
        }
    }
    u32::try_from(mixture.len() - before).ok()
}

fn nearest(mixture: &Mixture, value: f64) -> u8 {
    let distance = |mean: &f64| (value - mean).abs();
    let means = (0..=u8::MAX).zip(&mixture.means);
    means
        .min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
        .map_or(0, |(number, _)| number)
}

/// Adds a component in the middle of `members`, which must be sorted.
fn add(mixture: &mut Mixture, members: &[f64], all: usize) {
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return;
    };
    let mean = first + (last - first) / 2.0;
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let (count, all) = (members.len() as f64, all as f64);
    let squares: f64 = members.iter().map(|m| (m - mean) * (m - mean)).sum();
    mixture.weights.push(count / all);
    mixture.means.push(mean);
    mixture
        .deviations
        .push(libm::sqrt(squares / count).max(MIN_DEVIATION));
}

/// The number of values, their mean, and the sum of the squared distances of the
/// values from the mean.
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
