//! Factors packed bit to bit, least significant bit first
//! (docs/formats/zxd1.md 13.1).

use alloc::vec::Vec;

use super::Head;
use crate::{Error, Result, Rule};

/// The left factors row by row, then the right ones row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Factors {
    /// Those whose sums of products single precision holds.
    Narrow(Vec<i16>),
    Wide(Vec<i32>),
}

impl Factors {
    /// Holds the factors that `head` describes.
    pub fn new(values: Vec<i32>, head: &Head) -> Self {
        if head.is_single() {
            let narrow = |value| i16::try_from(value).expect("a factor of at most 13 bits");
            Self::Narrow(values.into_iter().map(narrow).collect())
        } else {
            Self::Wide(values)
        }
    }

    /// Reads the factors that `head` describes, which fill `packed`.
    pub fn unpack(packed: &[u8], head: &Head) -> Result<Self> {
        let mut reader = Reader {
            packed: packed.iter(),
            bits: head.bits.into(),
            held: 0,
            len: 0,
        };
        // As many as the packed bytes hold, each in up to 16 times its length.
        let too_many = || Error::limit("the low-rank factors do not fit into memory");
        let count = usize::try_from(head.factors()).map_err(|_| too_many())?;
        let factors = if head.is_single() {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(i16::try_from(reader.next()).expect("a factor of at most 13 bits"));
            }
            Self::Narrow(values)
        } else {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(reader.next());
            }
            Self::Wide(values)
        };
        if reader.held != 0 {
            let detail = "bits are set after the last low-rank factor";
            let at = packed.len().saturating_sub(1) as u64;
            return Err(Error::malformed(Rule::LowRankPadding, detail).at(at));
        }
        Ok(factors)
    }

    /// Appends the factors in `bits` bits each, with zeros up to a whole byte.
    pub fn pack(&self, bits: u8, out: &mut Vec<u8>) {
        let mut writer = Writer {
            out,
            bits: bits.into(),
            held: 0,
            len: 0,
        };
        match self {
            Self::Narrow(values) => values.iter().for_each(|&v| writer.push(v.into())),
            Self::Wide(values) => values.iter().for_each(|&v| writer.push(v)),
        }
        if writer.len > 0 {
            let last = writer.held.to_le_bytes()[0];
            writer.out.push(last);
        }
    }
}

struct Reader<'a> {
    packed: core::slice::Iter<'a, u8>,
    bits: u32,
    held: u64,
    len: u32,
}

impl Reader<'_> {
    fn next(&mut self) -> i32 {
        while self.len < self.bits {
            let byte = self.packed.next().expect("the length fits");
            self.held |= u64::from(*byte) << self.len;
            self.len += 8;
        }
        let value = self.held & ((1 << self.bits) - 1);
        self.held >>= self.bits;
        self.len -= self.bits;
        let value = i32::try_from(value).expect("at most 24 bits");
        value - (1 << (self.bits - 1))
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    bits: u32,
    held: u64,
    len: u32,
}

impl Writer<'_> {
    fn push(&mut self, factor: i32) {
        let offset = i64::from(factor) + (1 << (self.bits - 1));
        let value = u64::try_from(offset).expect("a factor of that many bits");
        debug_assert!(value >> self.bits == 0, "a factor of that many bits");
        self.held |= value << self.len;
        self.len += self.bits;
        while self.len >= 8 {
            self.out.push(self.held.to_le_bytes()[0]);
            self.held >>= 8;
            self.len -= 8;
        }
    }
}
