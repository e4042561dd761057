//! The figures of a set of elements, and their encoding
//! (docs/formats/zstn-integrity.md 7).

use alloc::vec::Vec;

use super::element;
use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

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

/// Returns whether a file stores the mean and the root mean square of this
/// dtype in 64 bits, because floats of 32 bits cannot represent all of its
/// values.
pub(super) fn are_wide(dtype: Dtype) -> bool {
    dtype.bits() == 64 || matches!(dtype, Dtype::I32 | Dtype::U32)
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

/// Appends the figures of elements of this dtype.
pub fn write(out: &mut Vec<u8>, figures: &Figures, dtype: Dtype) {
    let has_special = figures.nans + figures.infinities > 0;
    // The shift loses no bit, since no tensor has 2^63 elements.
    write_number(out, figures.zeros << 1 | u64::from(has_special));
    if has_special {
        write_number(out, figures.nans);
        write_number(out, figures.infinities);
    }
    if figures.finite() == 0 {
        return;
    }
    for extreme in [figures.min, figures.max] {
        match dtype.bits() {
            64 => out.extend_from_slice(&extreme.to_le_bytes()),
            _ => element::write(out, extreme, dtype),
        }
    }
    for value in [figures.mean, figures.rms] {
        match are_wide(dtype) {
            true => out.extend_from_slice(&value.to_le_bytes()),
            // The value has been rounded to 32 bits already.
            #[allow(clippy::cast_possible_truncation)]
            false => out.extend_from_slice(&(value as f32).to_le_bytes()),
        }
    }
}

/// Reads the figures of `count` elements of this dtype, for which
/// [`has_figures`](super::has_figures) is true.
///
/// # Errors
/// [`Rule::ZstnStatistics`] for figures that no elements can have, and
/// [`Rule::Truncated`].
pub fn read(cursor: &mut Cursor, count: u64, dtype: Dtype) -> Result<Figures> {
    let at = cursor.position() as u64;
    let bad = |detail: &'static str| Error::malformed(Rule::ZstnStatistics, detail).at(at);
    let mut figures = Figures::without_finite(count);
    let zeros = read_number(cursor)?;
    figures.zeros = zeros >> 1;
    if zeros & 1 == 1 {
        figures.nans = read_number(cursor)?;
        figures.infinities = read_number(cursor)?;
    }
    let special = figures.nans.checked_add(figures.infinities);
    let others = special.and_then(|special| special.checked_add(figures.zeros));
    if others.is_none_or(|others| others > count) {
        return Err(bad("statistics count more elements than the tensor has"));
    }
    if figures.finite() == 0 {
        return Ok(figures);
    }
    let mut extreme = || -> Result<f64> {
        let len = dtype.len_bytes().unwrap_or_default() as u64;
        let bytes = cursor.take(len, "an extreme")?;
        Ok(match dtype {
            Dtype::I64 | Dtype::U64 => element::value(bytes, Dtype::F64),
            _ => element::value(bytes, dtype),
        })
    };
    figures.min = extreme()?;
    figures.max = extreme()?;
    let mut mean = || -> Result<f64> {
        let of = if are_wide(dtype) {
            Dtype::F64
        } else {
            Dtype::F32
        };
        let len = of.len_bytes().unwrap_or_default() as u64;
        Ok(element::value(cursor.take(len, "a mean")?, of))
    };
    figures.mean = mean()?;
    figures.rms = mean()?;
    let Figures {
        min,
        max,
        mean,
        rms,
        ..
    } = figures;
    let magnitude = max.max(-min);
    let is_possible = (min..=max).contains(&mean)
        && (0.0..=magnitude).contains(&rms)
        && min.is_finite()
        && max.is_finite()
        && (figures.zeros == 0 || (min..=max).contains(&0.0));
    match is_possible {
        true => Ok(figures),
        false => Err(bad("no elements have these statistics")),
    }
}

/// Appends a number, seven bits per byte, low bits first. The high bit of a
/// byte is set if another byte follows.
pub fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Reads a number in the encoding of [`write_number`].
pub(crate) fn read_number(cursor: &mut Cursor) -> Result<u64> {
    let at = cursor.position() as u64;
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = cursor.u8("a number")?;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Error::malformed(Rule::ZstnStatistics, "a number has more than 64 bits").at(at))
}
