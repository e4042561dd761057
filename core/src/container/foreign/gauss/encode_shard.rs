//! Encodes one shard as a mixture and two streams (docs/formats/gauss.md 5 to
//! 8).

use alloc::vec;
use alloc::vec::Vec;

use super::moments::Moments;
use super::options::Options;
use super::outliers::{cover_outliers, residual};
use super::report::{RawReason, ShardReport};
use super::{dtypes, value};
use crate::dtype::Dtype;
use crate::entropy::ans::{Categorical, Encoder, Gaussian};
use crate::transform::gmm::{self, Fit, Mixture};

/// Every n-th value of a sample is encoded on trial.
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
    options: &Options,
) -> Result<EncodedShard, RawReason> {
    let values = value::to_f64(dtype, bytes);
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
        // SplitMix64. The upper half of the product is distributed evenly below
        // the length.
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

/// Assigns components by `placed`, which contains the `values` or the values
/// rounded to the grid.
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

/// Assigns components after rounding their means and the values to whole steps.
/// No two components then share a step, which would make values in it more
/// expensive to code in both.
fn assign_on_grid(mut fit: Fit, values: &[f64], scale: u32) -> Option<Assigned> {
    let steps = f64::from(scale);
    let nearest = |value: &f64| value::round_even(value * steps) / steps;
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
        Dtype::F16 => value::f16_to_f64(value::f16(value)),
        Dtype::Bf16 => f64::from(f32::from_bits(u32::from(value::bf16(value)) << 16)),
        _ => value,
    }
}

/// Returns the number of steps per unit (docs/formats/gauss.md 5).
pub fn scale(dtype: Dtype, options: &Options) -> u32 {
    let usual = match dtype {
        Dtype::Bf16 => super::BF16_SCALE,
        _ => super::SCALE,
    };
    debug_assert!(dtypes::is_float(dtype), "only floats are coded");
    options.scale.unwrap_or(usual)
}
