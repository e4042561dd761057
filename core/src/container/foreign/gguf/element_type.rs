//! The table of element types (docs/formats/gguf.md 3).

use serde::{Deserialize, Serialize};

use super::{ByteOrder, ElementCoding};
use crate::dtype::Dtype;

macro_rules! element_types {
    ($( $(#[$doc:meta])* $variant:ident = $number:literal $name:literal $elements:literal $bytes:literal $dtype:ident, )*) => {
        /// The stored type of a tensor's elements: a plain dtype, or a type
        /// that stores blocks of quantised elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ElementType { $( $(#[$doc])* $variant, )* }

        impl ElementType {
            /// Every element type that occurs in files, in the order of the
            /// numbers.
            pub const ALL: &[Self] = &[ $( Self::$variant, )* ];

            /// Returns the number of the type in a file.
            #[must_use]
            pub fn number(self) -> u32 {
                match self { $( Self::$variant => $number, )* }
            }

            /// Returns the name that llama.cpp gives the type, such as `Q4_K`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Returns the number of elements in a block; 1 for plain types.
            #[must_use]
            pub fn block_elements(self) -> u64 {
                match self { $( Self::$variant => $elements, )* }
            }

            /// Returns the stored length of a block in bytes.
            #[must_use]
            pub fn block_bytes(self) -> u64 {
                match self { $( Self::$variant => $bytes, )* }
            }

            /// Returns the dtype of the values: `F32` for types of blocks.
            #[must_use]
            pub fn dtype(self) -> Dtype {
                match self { $( Self::$variant => Dtype::$dtype, )* }
            }
        }
    };
}

element_types! {
    /// Single precision.
    F32 = 0 "F32" 1 4 F32,
    /// Half precision.
    F16 = 1 "F16" 1 2 F16,
    /// 4 bits and a scale for 32 elements.
    Q4_0 = 2 "Q4_0" 32 18 F32,
    /// 4 bits, a scale and a minimum for 32 elements.
    Q4_1 = 3 "Q4_1" 32 20 F32,
    /// 5 bits and a scale for 32 elements.
    Q5_0 = 6 "Q5_0" 32 22 F32,
    /// 5 bits, a scale and a minimum for 32 elements.
    Q5_1 = 7 "Q5_1" 32 24 F32,
    /// 8 bits and a scale for 32 elements.
    Q8_0 = 8 "Q8_0" 32 34 F32,
    /// 2 bits; each 16 of 256 elements have a scale and a minimum.
    Q2K = 10 "Q2_K" 256 84 F32,
    /// 3 bits; each 16 of 256 elements have a scale.
    Q3K = 11 "Q3_K" 256 110 F32,
    /// 4 bits; each 32 of 256 elements have a scale and a minimum.
    Q4K = 12 "Q4_K" 256 144 F32,
    /// 5 bits; each 32 of 256 elements have a scale and a minimum.
    Q5K = 13 "Q5_K" 256 176 F32,
    /// 6 bits; each 16 of 256 elements have a scale.
    Q6K = 14 "Q6_K" 256 210 F32,
    /// Points of a grid with 256 entries.
    Iq2Xxs = 16 "IQ2_XXS" 256 66 F32,
    /// Points of a grid with 512 entries.
    Iq2Xs = 17 "IQ2_XS" 256 74 F32,
    /// Points of a grid with 256 entries, of four elements each.
    Iq3Xxs = 18 "IQ3_XXS" 256 98 F32,
    /// Points of a ternary grid with 2048 entries; each 32 elements have a scale.
    Iq1S = 19 "IQ1_S" 256 50 F32,
    /// 4 bits that select one of 16 uneven steps.
    Iq4Nl = 20 "IQ4_NL" 32 18 F32,
    /// Points of a grid with 512 entries, of four elements each.
    Iq3S = 21 "IQ3_S" 256 110 F32,
    /// Points of a grid with 1024 entries.
    Iq2S = 22 "IQ2_S" 256 82 F32,
    /// Like `IQ4_NL`, with a scale for every 32 of the 256 elements.
    Iq4Xs = 23 "IQ4_XS" 256 136 F32,
    /// 8-bit integers.
    I8 = 24 "I8" 1 1 I8,
    /// 16-bit integers.
    I16 = 25 "I16" 1 2 I16,
    /// 32-bit integers.
    I32 = 26 "I32" 1 4 I32,
    /// 64-bit integers.
    I64 = 27 "I64" 1 8 I64,
    /// Double precision.
    F64 = 28 "F64" 1 8 F64,
    /// Points of a ternary grid with 2048 entries; each 16 elements have a scale.
    Iq1M = 29 "IQ1_M" 256 56 F32,
    /// bfloat16.
    Bf16 = 30 "BF16" 1 2 Bf16,
    /// Five ternary elements in a byte.
    Tq1_0 = 34 "TQ1_0" 256 54 F32,
    /// Four ternary elements in a byte.
    Tq2_0 = 35 "TQ2_0" 256 66 F32,
    /// 4-bit floats with a power of two as the scale of 32 elements.
    Mxfp4 = 39 "MXFP4" 32 17 F32,
    /// 4-bit floats with an 8-bit float as the scale of 16 elements.
    Nvfp4 = 40 "NVFP4" 64 36 F32,
    /// Signs, with a scale for 128 elements.
    Q1_0 = 41 "Q1_0" 128 18 F32,
    /// 2 bits, with a scale for 64 elements.
    Q2_0 = 42 "Q2_0" 64 18 F32,
}

impl ElementType {
    /// Returns the type with this number, or `None` for numbers that no current
    /// file has.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|element| element.number() == number)
    }

    /// Returns the coding of elements of this type in a file of this byte
    /// order.
    #[must_use]
    pub fn coding(self, order: ByteOrder) -> ElementCoding {
        match (self.is_block(), order, self.block_bytes()) {
            (true, ..) => ElementCoding::Blocks(self, order),
            (false, ByteOrder::Big, width @ 2..=8) => ElementCoding::Swapped(width),
            (false, ..) => ElementCoding::Plain,
        }
    }

    /// Returns whether the elements are stored in blocks.
    #[must_use]
    pub fn is_block(self) -> bool {
        self.block_elements() > 1
    }
}
