//! Float formats of 8 to 32 bits: the dtypes of extension frames, and conversions.
//! Conversions of 16-bit floats consist of one IEEE operation or of integer
//! arithmetic, without branches, so compilers vectorise them and every platform
//! returns the same bits.

use crate::dtype::Dtype;

/// A dtype of the elements of extension frames. The discriminants are the dtype
/// numbers of their formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatType {
    /// bfloat16.
    Bf16 = 0,
    /// IEEE half precision.
    F16 = 1,
    /// IEEE single precision.
    F32 = 2,
}

impl FloatType {
    const ALL: [Self; 3] = [Self::Bf16, Self::F16, Self::F32];

    /// Returns the type with the number `id`.
    #[must_use]
    pub(crate) fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|float| *float as u8 == id)
    }

    /// Returns the type for `dtype`, or `None` if extension frames do not support
    /// it.
    #[must_use]
    pub fn from_dtype(dtype: Dtype) -> Option<Self> {
        Self::ALL.into_iter().find(|float| float.dtype() == dtype)
    }

    /// Returns the type whose dtype has exactly this name in safetensors.
    #[cfg(feature = "mixes")]
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|float| float.dtype().name() == name)
    }

    /// Returns the corresponding dtype.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Bf16 => Dtype::Bf16,
            Self::F16 => Dtype::F16,
            Self::F32 => Dtype::F32,
        }
    }

    /// Returns the size of one number in bytes.
    #[must_use]
    pub fn len_bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// Converts a bfloat16 to a float32.
#[must_use]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts a half-precision number to a float32. Infinities and NaN become finite
/// values, so callers must handle them separately.
#[must_use]
pub(crate) fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // The bits give an exponent that is 112 too small, which an exact product with
    // 2^112 corrects. The product also normalises subnormal numbers.
    let value = f32::from_bits(magnitude) * f32::from_bits((112 + 127) << 23);
    f32::from_bits(value.to_bits() | sign)
}

/// Rounds a number that is not NaN to the nearest bfloat16, ties to even.
#[must_use]
pub fn to_bf16(value: f32) -> u16 {
    bf16_of_bits(value.to_bits())
}

/// Rounds the float with these bits to the nearest bfloat16, ties to even. A NaN
/// that is representable as a bfloat16 is unchanged.
#[must_use]
pub(crate) fn bf16_of_bits(bits: u32) -> u16 {
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Rounds a number that is not NaN to the nearest half-precision number, ties to
/// even.
#[must_use]
pub(crate) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    // The exponent bias is 127 in float32 and 15 in half precision.
    let rebased = magnitude.wrapping_sub(112 << 23);
    let normal = (rebased.wrapping_add(0x0fff + (magnitude >> 13 & 1)) >> 13).min(0x7c00);
    // The last place of a subnormal half is 2^-24, like the last place of the float
    // 0.5, so the addition rounds correctly.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    // The magnitude in 15 bits.
    let rounded = if magnitude < 113 << 23 {
        subnormal
    } else {
        normal
    };
    sign | (rounded & 0x7fff) as u16
}

/// Returns the value of an 8-bit float in the format `dtype`.
#[must_use]
pub fn float8(code: u8, dtype: Dtype) -> f64 {
    if dtype == Dtype::F8E8M0 {
        return match code {
            u8::MAX => f64::NAN,
            _ => power_of_two(i32::from(code) - 127),
        };
    }
    let (mantissa_bits, bias) = match dtype {
        Dtype::F8E4M3 => (3, 7),
        Dtype::F8E4M3Fnuz => (3, 8),
        Dtype::F8E5M2Fnuz => (2, 16),
        _ => (2, 15),
    };
    let magnitude = code & 0x7F;
    let special = match dtype {
        Dtype::F8E4M3 if magnitude == 0x7F => Some(f64::NAN),
        Dtype::F8E5M2 if magnitude == 0x7C => Some(f64::INFINITY),
        Dtype::F8E5M2 if magnitude > 0x7C => Some(f64::NAN),
        Dtype::F8E4M3Fnuz | Dtype::F8E5M2Fnuz if code == 0x80 => Some(f64::NAN),
        _ => None,
    };
    let exponent = i32::from(magnitude >> mantissa_bits);
    let mantissa = magnitude & ((1 << mantissa_bits) - 1);
    let hidden = u8::from(exponent > 0) << mantissa_bits;
    let scale = power_of_two(exponent.max(1) - bias - mantissa_bits);
    let value = special.unwrap_or(f64::from(hidden + mantissa) * scale);
    if code < 0x80 { value } else { -value }
}

/// Returns 2 to the power `exponent`, which must be within the range of normal
/// numbers.
#[must_use]
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).unsigned_abs()) << 52)
}
