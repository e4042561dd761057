//! The table of dtypes, with their safetensors names and sizes
//! (docs/formats/z4ai-containers.md 1.4).

use core::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dtypes {
    ($( $(#[$doc:meta])* $name:ident $spelling:literal $bits:literal, )*) => {
        /// The element type of a tensor: one of the 22 dtypes of safetensors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
pub enum Dtype { $( $(#[$doc])* #[serde(rename = $spelling)] $name, )* }

        impl Dtype {
            /// Every dtype, in the order of safetensors' ranking.
            pub const ALL: [Dtype; 22] = [ $( Dtype::$name, )* ];

            /// Returns the name in a safetensors header.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $spelling, )* }
            }

            /// Returns the size of one element in bits.
            #[must_use]
            pub fn bits(self) -> u64 {
                match self { $( Self::$name => $bits, )* }
            }
        }
    };
}

dtypes! {
    /// Truth value of one byte.
    Bool "BOOL" 8,
    /// Four-bit float.
    F4 "F4" 4,
    /// Six-bit float, 2 exponent bits.
    F6E2M3 "F6_E2M3" 6,
    /// Six-bit float, 3 exponent bits.
    F6E3M2 "F6_E3M2" 6,
    /// Unsigned 8-bit integer.
    U8 "U8" 8,
    /// Signed 8-bit integer.
    I8 "I8" 8,
    /// Eight-bit float, 5 exponent bits.
    F8E5M2 "F8_E5M2" 8,
    /// Eight-bit float, 4 exponent bits.
    F8E4M3 "F8_E4M3" 8,
    /// Eight-bit power of two, used as a scale.
    F8E8M0 "F8_E8M0" 8,
    /// Eight-bit float without negative zero, 4 exponent bits.
    F8E4M3Fnuz "F8_E4M3FNUZ" 8,
    /// Eight-bit float without negative zero, 5 exponent bits.
    F8E5M2Fnuz "F8_E5M2FNUZ" 8,
    /// Signed 16-bit integer.
    I16 "I16" 16,
    /// Unsigned 16-bit integer.
    U16 "U16" 16,
    /// IEEE half precision.
    F16 "F16" 16,
    /// bfloat16.
    Bf16 "BF16" 16,
    /// Signed 32-bit integer.
    I32 "I32" 32,
    /// Unsigned 32-bit integer.
    U32 "U32" 32,
    /// IEEE single precision.
    F32 "F32" 32,
    /// Complex number of two single-precision floats.
    C64 "C64" 64,
    /// IEEE double precision.
    F64 "F64" 64,
    /// Signed 64-bit integer.
    I64 "I64" 64,
    /// Unsigned 64-bit integer.
    U64 "U64" 64,
}

impl Dtype {
    /// Returns the size of one element in bytes, or `None` for dtypes smaller
    /// than a byte.
    #[must_use]
    pub fn len_bytes(self) -> Option<usize> {
        match self.bits() {
            8 => Some(1),
            16 => Some(2),
            32 => Some(4),
            64 => Some(8),
            _ => None,
        }
    }

    /// Returns the dtype called `name` in safetensors or in z4ai
    /// (docs/formats/z4ai-frames.md 14), ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let name = match lower.as_str() {
            "bfloat16" => "bf16",
            "fp16" | "float16" => "f16",
            "fp32" | "float32" => "f32",
            "fp64" | "float64" => "f64",
            "int8" => "i8",
            "uint8" => "u8",
            "int16" => "i16",
            "uint16" => "u16",
            "int32" => "i32",
            "uint32" => "u32",
            "int64" => "i64",
            "uint64" => "u64",
            "fp8_e4m3" => "f8_e4m3",
            "fp8_e5m2" => "f8_e5m2",
            other => other,
        };
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_sizes_whole() {
        for (i, a) in Dtype::ALL.iter().enumerate() {
            assert!(Dtype::ALL[..i].iter().all(|b| a.name() != b.name()));
            assert_eq!(a.len_bytes().is_none(), a.bits() < 8);
            assert_eq!(Dtype::from_name(a.name()), Some(*a));
        }
    }

    #[test]
    fn names_of_both_packages() {
        assert_eq!(Dtype::from_name("bfloat16"), Some(Dtype::Bf16));
        assert_eq!(Dtype::from_name("Float32"), Some(Dtype::F32));
        assert_eq!(Dtype::from_name("fp8_e5m2"), Some(Dtype::F8E5M2));
        assert_eq!(Dtype::from_name("f33"), None);
    }
}
