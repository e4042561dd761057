//! Factors packed bit by bit, least significant bit first (docs/formats/zxd1.md
//! 13.1).

use alloc::vec::Vec;

use super::Head;
use crate::entropy::bits::{BitReader, BitWriter};
use crate::{Error, Result, Rule};

/// The left factors in row-major order, followed by the right ones in row-major
/// order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Factors {
    /// Factors whose sums of products are exact in single precision.
    Narrow(Vec<i16>),
    Wide(Vec<i32>),
}

impl Factors {
    /// Stores the factors of a product described by `head`.
    pub fn new(values: Vec<i32>, head: &Head) -> Self {
        if head.is_single() {
            let narrow = |value| i16::try_from(value).expect("a factor of at most 13 bits");
            Self::Narrow(values.into_iter().map(narrow).collect())
        } else {
            Self::Wide(values)
        }
    }

    /// Unpacks the factors of a product described by `head`, which must fill
    /// `packed`.
    pub fn unpack(packed: &[u8], head: &Head) -> Result<Self> {
        let mut reader = BitReader::new(packed);
        let mut next = || -> Result<i32> {
            let value = reader.take(head.bits.into(), "a low-rank factor")?;
            Ok(value.cast_signed() - (1 << (head.bits - 1)))
        };
        // The allocation is at most eight times as long as the packed bytes.
        let too_many = || Error::limit("the low-rank factors do not fit into memory");
        let count = usize::try_from(head.factors()).map_err(|_| too_many())?;
        let factors = if head.is_single() {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(i16::try_from(next()?).expect("a factor of at most 13 bits"));
            }
            Self::Narrow(values)
        } else {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(next()?);
            }
            Self::Wide(values)
        };
        reader.finish(Rule::LowRankPadding, "the low-rank factors")?;
        Ok(factors)
    }

    /// Appends the factors with `bits` bits each, padded with zeros to a whole
    /// byte.
    pub fn pack(&self, bits: u8, out: &mut Vec<u8>) {
        let mut writer = BitWriter::new(out);
        let mut push = |factor: i32| {
            let offset = i64::from(factor) + (1 << (bits - 1));
            let value = u64::try_from(offset).expect("a factor of that many bits");
            debug_assert!(value >> bits == 0, "a factor of that many bits");
            writer.put(value, bits.into());
        };
        match self {
            Self::Narrow(values) => values.iter().for_each(|&v| push(v.into())),
            Self::Wide(values) => values.iter().for_each(|&v| push(v)),
        }
        writer.finish();
    }
}
