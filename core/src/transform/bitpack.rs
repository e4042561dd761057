//! Mantissas packed bit by bit, most significant bit first
//! (docs/formats/z4ai-frames.md 11.2). The unpacked form is the mantissa plane
//! of [`super::bitfield`].

use alloc::vec;
use alloc::vec::Vec;

use super::FloatFormat;
use crate::{Error, Result, Rule};

/// Returns the length in bytes of `n` packed mantissas, or `None` if it exceeds
/// 64 bits.
#[must_use]
pub fn packed_len(format: FloatFormat, n: u64) -> Option<u64> {
    // A mantissa has `mantissa_bits` bits, so eight mantissas take `mantissa_bits`
    // bytes.
    let whole = (n / 8).checked_mul(format.mantissa_bits.into())?;
    whole.checked_add((n % 8 * u64::from(format.mantissa_bits)).div_ceil(8))
}

/// Packs a mantissa plane.
#[must_use]
pub fn pack(format: FloatFormat, plane: &[u8]) -> Vec<u8> {
    let (bits, parts) = (format.mantissa_bits, format.mantissa_bytes());
    let n = plane.len() / parts;
    let mut out = Vec::with_capacity(n * bits as usize / 8 + 1);
    let (mut held, mut count) = (0u64, 0);
    for i in 0..n {
        let mantissa = (0..parts).fold(0, |word, k| word | u64::from(plane[k * n + i]) << (8 * k));
        held = held << bits | mantissa;
        count += bits;
        while count >= 8 {
            count -= 8;
            out.push((held >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        out.push((held << (8 - count)).to_le_bytes()[0]);
    }
    out
}

/// Unpacks `n` mantissas into a plane.
///
/// # Panics
/// If the length of `packed` is not [`packed_len`]; frame parsers have checked
/// it.
pub fn unpack(format: FloatFormat, packed: &[u8], n: usize) -> Result<Vec<u8>> {
    assert_eq!(packed_len(format, n as u64), Some(packed.len() as u64));
    let (bits, parts) = (format.mantissa_bits, format.mantissa_bytes());
    let mut plane = vec![0; parts * n];
    let mut bytes = packed.iter();
    let (mut held, mut count) = (0u64, 0);
    for i in 0..n {
        while count < bits {
            held = held << 8 | u64::from(*bytes.next().expect("the length fits"));
            count += 8;
        }
        count -= bits;
        let mantissa = held >> count & ((1 << bits) - 1);
        for k in 0..parts {
            plane[k * n + i] = (mantissa >> (8 * k)).to_le_bytes()[0];
        }
    }
    if held & ((1 << count) - 1) != 0 {
        return Err(Error::malformed(
            Rule::FrameFieldRange,
            "bits are set after the last packed mantissa",
        ));
    }
    Ok(plane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format(name: &str) -> FloatFormat {
        FloatFormat::by_name(name.as_bytes()).unwrap()
    }

    #[test]
    fn the_worked_examples() {
        // docs/formats/z4ai-frames.md 17
        for (name, plane, packed) in [
            (
                "bfloat16",
                &[0u8, 0, 0, 0, 0, 0, 0, 0x34, 0, 0][..],
                &[0u8, 0, 0, 0, 0, 0, 0x34, 0, 0][..],
            ),
            ("float16", &[0, 0, 0x66, 0, 1, 2], &[0, 0x10, 0x09, 0x98]),
            (
                "float32",
                &[0, 0, 0xCD, 0, 0, 0xCC, 0, 0x20, 0x4C],
                &[0, 0, 0, 0x80, 0, 2, 0x66, 0x66, 0x68],
            ),
        ] {
            let format = format(name);
            assert_eq!(pack(format, plane), packed, "{name}");
            let n = plane.len() / format.mantissa_bytes();
            assert_eq!(unpack(format, packed, n).unwrap(), plane, "{name}");
        }
    }

    #[test]
    fn padding_and_lengths() {
        let error = unpack(format("bfloat16"), &[0, 1], 2).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::FrameFieldRange));
        assert_eq!(packed_len(format("float32"), u64::MAX), None);
        assert_eq!(packed_len(format("float32"), 1 << 61), Some(23 << 58));
    }

    proptest! {
        #[test]
        fn unpack_undoes_pack(which in 0usize..3, elements in prop::collection::vec(any::<[u8; 4]>(), 0..60)) {
            let format = format(["bfloat16", "float16", "float32"][which]);
            let elements: Vec<u8> = elements.iter().flat_map(|e| e[..format.item_bytes].to_vec()).collect();
            let n = elements.len() / format.item_bytes;
            let mut plane = vec![0; format.plane_lens(n)[2]];
            format.split(&elements, 2, 0, &mut plane);
            let packed = pack(format, &plane);
            prop_assert_eq!(Some(packed.len() as u64), packed_len(format, n as u64));
            prop_assert_eq!(unpack(format, &packed, n).unwrap(), plane);
        }
    }
}
