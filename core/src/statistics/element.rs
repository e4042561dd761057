//! Conversion between the bytes of an element and its numeric value.

use alloc::vec::Vec;

use half::{bf16, f16};

use crate::dtype::Dtype;
use crate::float::float8;

/// Returns the value of an element. It is exact except for the 64-bit integers,
/// which are rounded to nearest, ties to even.
///
/// # Panics
/// If `bytes` is not one element of a dtype that has figures.
pub fn value(bytes: &[u8], dtype: Dtype) -> f64 {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().expect("an element"))
        };
    }
    match dtype {
        Dtype::Bool | Dtype::U8 => bytes[0].into(),
        Dtype::I8 => number!(i8).into(),
        Dtype::F8E5M2 | Dtype::F8E4M3 | Dtype::F8E8M0 | Dtype::F8E4M3Fnuz | Dtype::F8E5M2Fnuz => {
            float8(bytes[0], dtype)
        }
        Dtype::I16 => number!(i16).into(),
        Dtype::U16 => number!(u16).into(),
        Dtype::F16 => number!(f16).to_f64(),
        Dtype::Bf16 => number!(bf16).to_f64(),
        Dtype::I32 => number!(i32).into(),
        Dtype::U32 => number!(u32).into(),
        Dtype::F32 => number!(f32).into(),
        Dtype::F64 => number!(f64),
        Dtype::I64 => number!(i64) as f64,
        Dtype::U64 => number!(u64) as f64,
        Dtype::F4 | Dtype::F6E2M3 | Dtype::F6E3M2 | Dtype::C64 => {
            panic!("a dtype without figures")
        }
    }
}

/// Appends the element of a dtype of at most 32 bits whose value is `value`,
/// which must be a finite result of [`value`].
pub fn write(out: &mut Vec<u8>, value: f64, dtype: Dtype) {
    // `value` was read from the dtype, so the casts are exact.
    #[allow(clippy::cast_possible_truncation)]
    match dtype {
        Dtype::I8 => out.push((value as i8).to_le_bytes()[0]),
        Dtype::Bool | Dtype::U8 => out.push(value as u8),
        Dtype::I16 => out.extend_from_slice(&(value as i16).to_le_bytes()),
        Dtype::U16 => out.extend_from_slice(&(value as u16).to_le_bytes()),
        Dtype::F16 => out.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
        Dtype::Bf16 => out.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
        Dtype::I32 => out.extend_from_slice(&(value as i32).to_le_bytes()),
        Dtype::U32 => out.extend_from_slice(&(value as u32).to_le_bytes()),
        Dtype::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        _ => {
            let is_it = |&code: &u8| self::value(&[code], dtype) == value;
            // Both zeros are equal to the value 0. Positive zero has the lower
            // code, so it is the one found.
            out.push((0..=u8::MAX).find(is_it).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_eight_bits() {
        for (dtype, code, expected) in [
            (Dtype::F8E4M3, 0x38, 1.0),
            (Dtype::F8E4M3, 0x7E, 448.0),
            (Dtype::F8E4M3, 0x01, 0.001_953_125),
            (Dtype::F8E5M2, 0x3C, 1.0),
            (Dtype::F8E5M2, 0x7B, 57344.0),
            (Dtype::F8E5M2, 0xFC, f64::NEG_INFINITY),
            (Dtype::F8E4M3Fnuz, 0x40, 1.0),
            (Dtype::F8E4M3Fnuz, 0xFF, -240.0),
            (Dtype::F8E5M2Fnuz, 0x40, 1.0),
            (Dtype::F8E5M2Fnuz, 0x7F, 57344.0),
            (Dtype::F8E8M0, 0x7F, 1.0),
            (Dtype::F8E8M0, 0x00, 2f64.powi(-127)),
        ] {
            assert_eq!(value(&[code], dtype), expected, "{dtype} {code:#x}");
        }
        for (dtype, code) in [
            (Dtype::F8E4M3, 0xFF),
            (Dtype::F8E5M2, 0x7D),
            (Dtype::F8E4M3Fnuz, 0x80),
            (Dtype::F8E5M2Fnuz, 0x80),
            (Dtype::F8E8M0, 0xFF),
        ] {
            assert!(value(&[code], dtype).is_nan(), "{dtype} {code:#x}");
        }
    }

    #[test]
    fn an_element_is_written_as_it_was() {
        for dtype in Dtype::ALL {
            let (Some(len), true) = (dtype.len_bytes(), crate::statistics::has_figures(dtype))
            else {
                continue;
            };
            if len > 4 {
                continue;
            }
            for number in 0..=u16::MAX {
                let bytes = [number.to_le_bytes(), (!number).to_le_bytes()].concat();
                let bytes = &bytes[4 - len.max(2)..][..len];
                let value = value(bytes, dtype);
                // Negative zero is written as positive zero.
                if !value.is_finite() || value == 0.0 {
                    continue;
                }
                let mut written = Vec::new();
                write(&mut written, value, dtype);
                assert_eq!(written, bytes, "{dtype}");
            }
        }
    }
}
