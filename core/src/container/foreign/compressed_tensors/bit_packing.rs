//! The layouts of codes with one to eight bits each, and the choice between the
//! two layouts of pack-quantized (docs/formats/compressed-tensors.md 7.2 and
//! 7.3).

use alloc::format;
use alloc::vec::Vec;

use super::checkpoint::{TensorSpec, View};
use super::geometry::{WeightShape, stored_shape};
use crate::bytes::index;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// Returns the layouts that a weight of `bits` bits may have, the likelier one
/// first. `older` is true for files that the package wrote before its release
/// 0.18.
fn layouts(bits: u8, older: bool) -> [CodeLayout; 2] {
    let (dense, padded) = (CodeLayout::dense(bits), CodeLayout::padded(bits));
    if older {
        [padded, dense]
    } else {
        [dense, padded]
    }
}

fn holds(layout: CodeLayout, columns: u64, packed: &TensorSpec) -> bool {
    packed.shape.last() == Some(&layout.words(columns))
}

/// Returns the dense shape, which must fit the shape of the packed codes.
pub(crate) fn dense_shape(bits: u8, shape: View<'_>, packed: &TensorSpec) -> Result<Vec<u64>> {
    let dense = stored_shape(shape, packed.shape.len())?;
    let fits = match (dense.as_slice(), packed.shape.as_slice()) {
        ([rows @ .., columns], [packed_rows @ .., _]) => {
            rows == packed_rows
                && layouts(bits, false)
                    .iter()
                    .any(|&layout| holds(layout, *columns, packed))
        }
        _ => false,
    };
    if fits && element_count(&dense).is_some() {
        return Ok(dense);
    }
    Err(Error::malformed(
        Rule::CompressedTensorsShape,
        format!(
            "a weight of shape {dense:?} and {bits} bits does not pack into the shape {:?}",
            packed.shape
        ),
    ))
}

/// Returns the layout of the codes and of packed zero points. It is the layout
/// that fits the stored shapes or, if both layouts fit, the one that the
/// release of the package uses.
pub fn layout(
    bits: u8,
    older: bool,
    geometry: &WeightShape,
    packed: &TensorSpec,
    zeros: Option<&TensorSpec>,
) -> Result<CodeLayout> {
    let fits = |layout: CodeLayout| {
        holds(layout, geometry.columns, packed)
            && zeros.is_none_or(|zeros| match zeros.shape.as_slice() {
                [.., words, _] => *words == layout.words(geometry.rows),
                _ => false,
            })
    };
    layouts(bits, older).into_iter().find(|&l| fits(l)).ok_or_else(|| {
        Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "packed codes of shape {:?} and packed zero points of shape {:?} do not match {} \
                 rows and {} columns",
                packed.shape,
                zeros.map(|zeros| &zeros.shape),
                geometry.rows,
                geometry.columns
            ),
        )
    })
}

/// The layout of consecutive codes. Codes begin at bit 0 of byte 0. The order
/// is the same in bytes and in little-endian words of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLayout {
    bits: u8,
    /// True if a word of 32 bits holds only whole codes, with padding after
    /// them.
    padded: bool,
}

impl CodeLayout {
    /// Creates the layout without padding between codes.
    pub fn dense(bits: u8) -> Self {
        Self {
            bits,
            padded: false,
        }
    }

    /// Creates the layout of the package's releases before 0.18, which pads
    /// every word.
    pub fn padded(bits: u8) -> Self {
        Self { bits, padded: true }
    }

    /// Returns the number of 32-bit words that `count` codes take.
    pub fn words(self, count: u64) -> u64 {
        let per_word = 32 / u64::from(self.bits);
        if self.padded {
            return count.div_ceil(per_word);
        }
        let words = (u128::from(count) * u128::from(self.bits)).div_ceil(32);
        u64::try_from(words).expect("at most a quarter of the count")
    }

    /// Returns the code at index `place` of the packed codes `string`, which
    /// must be long enough.
    pub fn code(self, string: &[u8], place: usize) -> u8 {
        let (place, bits) = (place as u64, u64::from(self.bits));
        let bit = if self.padded {
            let per_word = 32 / bits;
            place / per_word * 32 + place % per_word * bits
        } else {
            place * bits
        };
        let byte = index(bit / 8);
        let next = string.get(byte + 1).copied().unwrap_or_default();
        let pair = u16::from_le_bytes([string[byte], next]) >> (bit % 8);
        pair.to_le_bytes()[0] & (0xFF >> (8 - self.bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn stored(shape: &[u64]) -> TensorSpec {
        TensorSpec {
            name: "p".into(),
            dtype: Dtype::I32,
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn shapes_decide_before_the_release() {
        let geometry = WeightShape::new(vec![7, 40]).unwrap();
        let choose = |older, words| layout(3, older, &geometry, &stored(&[7, words]), None);
        // 40 codes of 3 bits take 4 words in both packings.
        assert_eq!(choose(true, 4).unwrap(), CodeLayout::padded(3));
        assert_eq!(choose(false, 4).unwrap(), CodeLayout::dense(3));
        let geometry = WeightShape::new(vec![21, 50]).unwrap();
        // 50 codes take 5 words in both packings, but 21 zero points take 3 or
        // 2.
        for older in [false, true] {
            let choose = |words| {
                layout(
                    3,
                    older,
                    &geometry,
                    &stored(&[21, 5]),
                    Some(&stored(&[words, 1])),
                )
            };
            assert_eq!(choose(3).unwrap(), CodeLayout::padded(3));
            assert_eq!(choose(2).unwrap(), CodeLayout::dense(3));
            assert!(choose(4).is_err());
        }
    }

    #[test]
    fn the_example_of_the_format() {
        let row = [0x10, 0xF8, 0xA9, 0xCB];
        for layout in [CodeLayout::dense(4), CodeLayout::padded(4)] {
            let codes: Vec<u8> = (0..8).map(|place| layout.code(&row, place)).collect();
            assert_eq!(codes, [0, 1, 8, 15, 9, 10, 11, 12]);
            assert_eq!((layout.words(8), layout.words(9)), (1, 2));
        }
    }

    #[test]
    fn dense_codes_cross_words_and_padded_ones_do_not() {
        // Bits 30 to 32 are set. They are code 10 in the layout without
        // padding, and belong to no single code in the padded one.
        let row = [0, 0, 0, 0xC0, 1, 0, 0, 0];
        assert_eq!(CodeLayout::dense(3).code(&row, 10), 7);
        assert_eq!(CodeLayout::padded(3).code(&row, 9), 0);
        assert_eq!(CodeLayout::padded(3).code(&row, 10), 1);
    }

    #[test]
    fn word_counts_do_not_wrap() {
        assert_eq!(
            CodeLayout::dense(7).words(u64::MAX),
            4_035_225_266_123_964_416
        );
        assert_eq!(CodeLayout::padded(3).words(0), 0);
        assert_eq!(
            (
                CodeLayout::dense(3).words(21),
                CodeLayout::padded(3).words(21)
            ),
            (2, 3)
        );
    }
}
