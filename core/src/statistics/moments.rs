//! The mean and the root mean square before they are rounded.

use super::figures::are_wide;
use super::{Figures, element, float_sums};
use crate::dtype::Dtype;
use crate::float::power_of_two;

/// Figures whose mean and root mean square have not been rounded to the
/// precision of the file.
#[derive(Debug, Clone, Copy)]
pub struct Moments(Figures);

/// A function that passes the bytes of some elements to its argument, piece by
/// piece.
pub(super) type Feed<'f, E> = dyn Fn(&mut dyn FnMut(&[u8])) -> Result<(), E> + 'f;

/// Sums over the finite elements.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// The sum of the elements.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

impl Moments {
    /// Computes the figures of the elements in the bytes that `feed` passes to
    /// its argument piece by piece. All pieces but the last consist of whole
    /// runs of 256 elements. `feed` is called twice for some dtypes.
    ///
    /// # Errors
    /// The errors of `feed`, such as a failed read.
    ///
    /// # Panics
    /// If the dtype has no figures.
    pub fn of_fed<E>(feed: &Feed<'_, E>, dtype: Dtype) -> Result<Self, E> {
        match dtype {
            Dtype::Bf16 | Dtype::F16 | Dtype::F32 => float_sums::of(feed, dtype),
            _ if dtype.bits() == 8 => by_code(feed, dtype),
            _ => wide(feed, dtype),
        }
    }

    /// Divides the sums by the number of finite elements. `figures` provides
    /// the counts and the extremes.
    pub(super) fn new(mut figures: Figures, sums: Sums) -> Self {
        let finite = figures.finite();
        if finite == 0 {
            return Self(Figures {
                min: f64::NAN,
                max: f64::NAN,
                ..figures
            });
        }
        // Adding zero turns a negative zero into a positive one.
        figures.min += 0.0;
        figures.max += 0.0;
        figures.mean = (sums.sum / finite as f64).clamp(figures.min, figures.max);
        let magnitude = figures.max.max(-figures.min);
        figures.rms = libm::sqrt(sums.squares / finite as f64).clamp(0.0, magnitude);
        Self(figures)
    }

    /// Returns the figures of the elements of all bands together.
    pub fn merge(bands: &[Self]) -> Self {
        if let [only] = bands {
            return *only;
        }
        let mut all = empty(0);
        let mut greatest = 0.0;
        for Self(band) in bands {
            all.count += band.count;
            all.zeros += band.zeros;
            all.nans += band.nans;
            all.infinities += band.infinities;
            // A band without finite elements has NaN here, and comparisons with
            // NaN are false.
            all.min = if band.min < all.min {
                band.min
            } else {
                all.min
            };
            all.max = if band.max > all.max {
                band.max
            } else {
                all.max
            };
            greatest = if band.rms > greatest {
                band.rms
            } else {
                greatest
            };
        }
        if all.finite() == 0 {
            return Self::new(all, Sums::default());
        }
        let finite = all.finite() as f64;
        // Sums of shares and ratios cannot overflow.
        let (mut mean, mut squares) = (0.0, 0.0);
        for Self(band) in bands.iter().filter(|Self(band)| band.finite() > 0) {
            let share = band.finite() as f64 / finite;
            mean += band.mean * share;
            let ratio = if greatest > 0.0 {
                band.rms / greatest
            } else {
                0.0
            };
            squares += ratio * ratio * share;
        }
        let magnitude = all.max.max(-all.min);
        all.mean = mean.clamp(all.min, all.max);
        all.rms = (greatest * libm::sqrt(squares)).clamp(0.0, magnitude);
        Self(all)
    }

    /// Rounds the mean and the root mean square to the precision of the file.
    pub fn figures(&self, dtype: Dtype) -> Figures {
        let round = |value: f64| match are_wide(dtype) {
            true => value,
            // The cast rounds on purpose.
            #[allow(clippy::cast_possible_truncation)]
            false => (value as f32).into(),
        };
        Figures {
            mean: round(self.0.mean),
            rms: round(self.0.rms),
            ..self.0
        }
    }
}

/// Returns figures of `count` elements to which elements can be added.
pub(super) fn empty(count: u64) -> Figures {
    Figures {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        ..Figures::without_finite(count)
    }
}

/// Adds `times` occurrences of a value to the counts and the extremes. Returns
/// whether the value is finite.
pub(super) fn count(figures: &mut Figures, value: f64, times: u64) -> bool {
    if value.is_nan() {
        figures.nans += times;
    } else if value.is_infinite() {
        figures.infinities += times;
    } else {
        figures.zeros += if value == 0.0 { times } else { 0 };
        figures.min = if value < figures.min {
            value
        } else {
            figures.min
        };
        figures.max = if value > figures.max {
            value
        } else {
            figures.max
        };
        return true;
    }
    false
}

/// Computes the figures of one-byte elements from the number of occurrences of
/// each code.
fn by_code<E>(feed: &Feed<'_, E>, dtype: Dtype) -> Result<Moments, E> {
    // Four tables are used, because an increment has to wait for the previous
    // increment of the same entry.
    let mut tables = [[0u32; 256]; 4];
    let mut codes = [0u64; 256];
    let mut len_bytes = 0;
    feed(&mut |piece| {
        len_bytes += piece.len() as u64;
        // Chunks of this length keep the counts within the 32 bits of the
        // tables.
        for bytes in piece.chunks(1 << 30) {
            let (fours, rest) = bytes.as_chunks::<4>();
            for four in fours {
                for (table, &code) in tables.iter_mut().zip(four) {
                    table[usize::from(code)] += 1;
                }
            }
            for &code in rest {
                codes[usize::from(code)] += 1;
            }
            for table in &mut tables {
                for (sum, count) in codes.iter_mut().zip(table) {
                    *sum += u64::from(core::mem::take(count));
                }
            }
        }
    })?;
    let mut figures = empty(len_bytes);
    let mut sums = Sums::default();
    for (code, &times) in (0..=u8::MAX).zip(&codes) {
        let value = element::value(&[code], dtype);
        if times > 0 && count(&mut figures, value, times) {
            sums.sum += times as f64 * value;
            sums.squares += times as f64 * (value * value);
        }
    }
    Ok(Moments::new(figures, sums))
}

/// Computes the figures of elements of more than one byte, except for floats of
/// up to 32 bits.
fn wide<E>(feed: &Feed<'_, E>, dtype: Dtype) -> Result<Moments, E> {
    match dtype {
        Dtype::I16 => wide_of(feed, |e| i16::from_le_bytes(e).into()),
        Dtype::U16 => wide_of(feed, |e| u16::from_le_bytes(e).into()),
        Dtype::I32 => wide_of(feed, |e| i32::from_le_bytes(e).into()),
        Dtype::U32 => wide_of(feed, |e| u32::from_le_bytes(e).into()),
        Dtype::F64 => wide_of(feed, f64::from_le_bytes),
        _ => wide_of(feed, |e: [u8; 8]| element::value(&e, dtype)),
    }
}

fn wide_of<const BYTES: usize, E>(
    feed: &Feed<'_, E>,
    value: impl Fn([u8; BYTES]) -> f64,
) -> Result<Moments, E> {
    let mut figures = empty(0);
    feed(&mut |piece| {
        let elements = piece.as_chunks::<BYTES>().0;
        figures.count += elements.len() as u64;
        for element in elements {
            count(&mut figures, value(*element), 1);
        }
    })?;
    // Scales the elements so that their squares stay within the exponent range.
    let magnitude = figures.max.max(-figures.min);
    let exponent = match magnitude {
        large if large >= power_of_two(400) => -600,
        small if small < power_of_two(-400) => 600,
        _ => 0,
    };
    let scale = power_of_two(exponent);
    let mut lanes = [Sums::default(); float_sums::LANES];
    feed(&mut |piece| {
        // Every piece starts at the first lane, as the format prescribes.
        let elements = piece.as_chunks::<BYTES>().0.iter();
        for (number, element) in elements.enumerate() {
            let value = value(*element);
            if value.is_finite() {
                let value = value * scale;
                let lane = &mut lanes[number % float_sums::LANES];
                lane.sum += value;
                lane.squares += value * value;
            }
        }
    })?;
    // The division comes before the elements are scaled back, because the sums
    // could overflow.
    let scaled = Figures {
        min: figures.min * scale,
        max: figures.max * scale,
        ..figures
    };
    let Moments(scaled) = Moments::new(scaled, float_sums::added(&lanes));
    if scaled.finite() == 0 {
        return Ok(Moments(scaled));
    }
    let back = power_of_two(-exponent);
    // The extremes are the original ones, since scaling may have rounded tiny
    // ones to zero.
    let [min, max] = [figures.min + 0.0, figures.max + 0.0];
    Ok(Moments(Figures {
        min,
        max,
        mean: (scaled.mean * back).clamp(min, max),
        rms: (scaled.rms * back).clamp(0.0, magnitude),
        ..scaled
    }))
}
