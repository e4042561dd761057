//! Contexts (docs/formats/zxd1.md 6) classify elements by the size of the change that is
//! expected before they are decoded. The exponent of the prediction and the code of the
//! group determine the expected change in units of the element's last place.

use alloc::boxed::Box;

use super::float_format::{Float, Word as _};

/// The number of contexts.
pub(crate) const CONTEXTS: usize = 161;
/// The last context of groups with a scale.
const LAST_SCALED: i32 = 95;
/// The context of unchanged groups.
pub(super) const UNCHANGED: usize = 96;
/// The first of the contexts of groups whose changes depend on the mantissa.
pub(super) const FIRST_MANTISSA: usize = 97;

/// The code of a group whose changes depend on the mantissa.
pub(super) const BY_MANTISSA: u8 = 254;
/// The code of a group without changes.
pub(super) const SAME: u8 = 255;
/// The code of a mean change of 1. Doubling the change adds two to the code.
pub(super) const UNIT: i32 = 100;
/// The largest code of a scale.
pub(super) const LAST_SCALE: i32 = 253;
/// The context of a change whose magnitude equals the element's.
const EQUAL: i32 = 16;

/// Before they are clamped, scaled contexts are at least −`BELOW`.
const BELOW: i32 = 2 * 127 + LAST_SCALE - UNIT - EQUAL;
const ENTRIES: usize = 1024;

/// Returns the term that is added to twice the exponent field to index the
/// entries.
#[allow(clippy::cast_sign_loss)] // 2 * BIAS is at most 254
fn offset<F: Float>(code: u8) -> usize {
    (BELOW + UNIT + EQUAL - 2 * F::BIAS - i32::from(code)) as usize
}

/// Maps elements to the number that is assigned to their context.
#[derive(Debug, Clone)]
pub(super) struct ContextMap {
    /// The number for each scaled context before it is clamped.
    scaled: Box<[u16; ENTRIES]>,
    unchanged: u16,
    by_mantissa: [u16; 64],
    /// The tables for groups with even and with odd codes.
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    ))]
    by_exponent: [ExponentTable; 2],
}

/// Maps the exponents of a group to the numbers of their scaled contexts. One
/// exponent step changes the context by two, so a group has only every other
/// context, and the table fits into vector registers.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[derive(Debug, Clone, Copy)]
pub(super) struct ExponentTable {
    /// The first exponent of the table. All smaller exponents share its context
    /// number.
    first: i16,
    /// The last exponent, relative to `first`. All larger exponents share its
    /// context number.
    pub last: i16,
    /// The low and the high bytes of the context numbers, 16 exponents per array.
    pub low: [[u8; 16]; Self::PARTS],
    pub high: [[u8; 16]; Self::PARTS],
}

#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
impl ExponentTable {
    /// Number of arrays that hold the at most 49 exponents with different contexts.
    pub const PARTS: usize = 4;

    /// Creates the table for even (0) or odd (1) offsets between exponent and
    /// context.
    fn new(parity: i32, meaning: impl Fn(usize) -> u16) -> Self {
        let meanings: [u16; 16 * Self::PARTS] = core::array::from_fn(|number| {
            let context = (2 * number).saturating_sub(index_of(parity));
            meaning(context.min(index_of(LAST_SCALED)))
        });
        let [start, .., end] = meanings;
        let first = meanings.iter().position(|&m| m != start).unwrap_or(1) - 1;
        let after = meanings
            .iter()
            .rposition(|&m| m != end)
            .map_or(0, |at| at + 1);
        let meaning = |number: usize| meanings[(first + number).min(meanings.len() - 1)];
        let bytes = |byte: usize| {
            core::array::from_fn(|part| {
                core::array::from_fn(|at| meaning(16 * part + at).to_le_bytes()[byte])
            })
        };
        Self {
            first: i16::try_from(first).unwrap_or(0),
            last: i16::try_from(after.saturating_sub(first)).unwrap_or(0),
            low: bytes(0),
            high: bytes(1),
        }
    }
}

#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
fn index_of(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl ContextMap {
    /// Creates a map that assigns `meaning(context)` to each context.
    #[must_use]
    pub fn new(meaning: impl Fn(usize) -> u16) -> Self {
        let mut scaled = Box::new([0; ENTRIES]);
        for (context, entry) in (-BELOW..).zip(scaled.iter_mut()) {
            let bounded = context.clamp(0, LAST_SCALED);
            *entry = meaning(usize::try_from(bounded).unwrap_or(0));
        }
        Self {
            scaled,
            unchanged: meaning(UNCHANGED),
            by_mantissa: core::array::from_fn(|top| meaning(FIRST_MANTISSA + top)),
            #[cfg(any(
                target_arch = "x86_64",
                all(target_arch = "wasm32", target_feature = "simd128")
            ))]
            by_exponent: [0, 1].map(|parity| ExponentTable::new(parity, &meaning)),
        }
    }

    /// Returns the table for a group with the code `code`, which must be the
    /// code of a scale, and the exponent field that has index 0 in the table.
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    ))]
    #[inline(always)]
    pub(crate) fn by_exponent<F: Float>(&self, code: u8) -> (&ExponentTable, i16) {
        // A context is twice the exponent field minus `less`.
        let less = 2 * F::BIAS + i32::from(code) - UNIT - EQUAL;
        let table = &self.by_exponent[usize::from(less & 1 == 1)];
        #[allow(clippy::cast_possible_truncation)] // at most 392 / 2
        let origin = (less >> 1) as i16 + table.first;
        (table, origin)
    }

    /// Returns the number assigned to the context of unchanged groups.
    #[must_use]
    pub fn unchanged(&self) -> u16 {
        self.unchanged
    }

    /// Writes to `out` the number assigned to the context of each element.
    /// `predicted` contains the bytes of the predicted elements, which all belong
    /// to one group with the code `code`.
    #[inline(always)]
    pub fn fill<F: Float>(&self, code: u8, predicted: &[u8], out: &mut [u16]) {
        let words = F::Word::words(predicted).zip(out.iter_mut());
        match code {
            SAME => out.fill(self.unchanged),
            BY_MANTISSA => {
                for (word, out) in words {
                    *out = self.by_mantissa[F::mantissa_top(word)];
                }
            }
            _ => {
                let offset = offset::<F>(code);
                for (word, out) in words {
                    let index = 2 * F::exponent(word) as usize + offset;
                    *out = self.scaled[index % ENTRIES];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::frame::difference::float_format::{Bf16, F16, F32};

    fn context<F: Float>(code: u8, word: u32) -> u16 {
        let map = ContextMap::new(|context| u16::try_from(context).unwrap());
        let bytes = word.to_le_bytes();
        let mut out = vec![999];
        map.fill::<F>(code, &bytes[..size_of::<F::Word>()], &mut out);
        out[0]
    }

    /// Computes a scaled context with the formula of the format description.
    fn expected(exponent: i32, bias: i32, code: i32) -> u16 {
        let context = 2 * (exponent - bias) - (code - 100) + 16;
        u16::try_from(context.clamp(0, 95)).unwrap()
    }

    #[test]
    fn scaled_contexts_follow_the_formula() {
        for code in 0..=253u8 {
            for exponent in 0..256u32 {
                let (e, q) = (i32::try_from(exponent).unwrap(), i32::from(code));
                // Sign and mantissa do not matter.
                assert_eq!(
                    context::<Bf16>(code, exponent << 7 | 0x807F),
                    expected(e, 127, q)
                );
                assert_eq!(
                    context::<F32>(code, exponent << 23 | 1),
                    expected(e, 127, q)
                );
                if exponent < 32 {
                    assert_eq!(
                        context::<F16>(code, exponent << 10 | 0x83FF),
                        expected(e, 15, q)
                    );
                }
            }
        }
    }

    #[test]
    fn the_other_codes() {
        assert_eq!(context::<Bf16>(255, 0x7FC0), 96);
        // The top six of the 7, 10 and 23 mantissa bits.
        assert_eq!(context::<Bf16>(254, 0x3F81), 97);
        assert_eq!(context::<Bf16>(254, 0xFFFF), 97 + 63);
        assert_eq!(context::<F16>(254, 0x3C10), 98);
        assert_eq!(
            context::<F32>(254, 0x3F80_0000 | 0x55 << 16),
            97 + 0b10_1010
        );
    }
}
