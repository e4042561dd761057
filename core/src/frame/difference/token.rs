//! Splits values into a symbol and raw bits (docs/formats/zxd1.md 5). A small
//! value is its own symbol. The symbol of a larger value gives its two leading
//! bits and the number of raw bits that follow them.

/// Values below this are their own symbols.
pub(super) const DIRECT: u32 = 32;
const DIRECT_BITS: u32 = DIRECT.ilog2();
/// The number of symbols: 32 direct ones, and two for each of the 27 powers of
/// two from 2^5 to 2^31.
pub(super) const SYMBOLS: usize = 32 + 2 * 27;
/// The maximum shift: the number of low bits that are removed from a value
/// before it is split.
pub(super) const MAX_SHIFT: u8 = 24;

/// Returns the number of raw bits that belong to a symbol.
#[inline(always)]
pub(super) const fn extra_bits(symbol: u8) -> u32 {
    if symbol < 32 {
        0
    } else {
        (symbol as u32 >> 1) - 12
    }
}

/// Returns the value of a symbol whose raw bits are all zero.
#[inline(always)]
pub(super) const fn lead(symbol: u8) -> u64 {
    if symbol < 32 {
        symbol as u64
    } else {
        (2 | symbol as u64 & 1) << extra_bits(symbol)
    }
}

/// Returns the symbol of a value.
#[inline(always)]
pub(super) fn symbol(value: u32) -> u8 {
    let log = (value | DIRECT).ilog2();
    // The two leading bits have the value 2 or 3.
    let large = DIRECT + 2 * (log - DIRECT_BITS) + (value >> (log - 1)) - 2;
    let symbol = if value < DIRECT { value } else { large };
    symbol.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_cover_all_values_in_order() {
        for value in [
            0,
            1,
            31,
            32,
            47,
            48,
            63,
            64,
            95,
            96,
            1 << 16,
            u32::MAX / 2,
            u32::MAX,
        ] {
            let symbol = symbol(value);
            assert!(usize::from(symbol) < SYMBOLS);
            let extra = u64::from(value) - lead(symbol);
            assert!(extra < 1 << extra_bits(symbol), "{value}");
        }
        let mut next = 0;
        for symbol in 0..SYMBOLS {
            let symbol = u8::try_from(symbol).unwrap();
            assert_eq!(lead(symbol), next, "{symbol}");
            next += 1 << extra_bits(symbol);
        }
        assert_eq!(next, 1 << 32);
        assert_eq!((symbol(47), symbol(48), symbol(u32::MAX)), (32, 33, 85));
    }

    #[test]
    fn a_symbol_and_its_shift_fit_a_window() {
        let most = extra_bits(u8::try_from(SYMBOLS - 1).unwrap());
        assert_eq!(most + u32::from(MAX_SHIFT), 54);
    }
}
