//! Reading a file at offsets that its own bytes state, while only some of these
//! bytes have been fetched: TensorFlow Lite and HDF5.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Error, Rule};

/// The reason why a value cannot be read.
#[derive(Debug)]
pub(super) enum Stop {
    /// Some of its bytes have not been fetched. [`RandomAccess`] has noted them.
    Missing,
    /// The file is malformed.
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

pub(super) type Read<T> = Result<T, Stop>;

/// Returns the bytes of a range of the file, if they have been fetched.
pub type Fetched<'a> = dyn Fn(Range<u64>) -> Option<Cow<'a, [u8]>> + 'a;

/// A file, and the blocks that were missing so far.
pub(super) struct RandomAccess<'f, 'a> {
    fetched: &'f Fetched<'a>,
    len_bytes: u64,
    block_bytes: u64,
    /// The rule that values outside of the file break.
    rule: Rule,
    missing: BTreeSet<u64>,
    /// The number of bytes that may still be read. Values that overlap are read
    /// more than once, so this bounds the work and the memory.
    budget_bytes: u64,
}

impl<'f, 'a> RandomAccess<'f, 'a> {
    pub fn new(fetched: &'f Fetched<'a>, len_bytes: u64, block_bytes: u64, rule: Rule) -> Self {
        Self {
            fetched,
            len_bytes,
            block_bytes,
            rule,
            missing: BTreeSet::new(),
            budget_bytes: len_bytes.saturating_mul(2).saturating_add(1 << 20),
        }
    }

    /// Returns the ranges that were missing, joined where they touch.
    pub fn missing(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in &self.missing {
            let start = block * self.block_bytes;
            let end = (start + self.block_bytes).min(self.len_bytes);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns `len_bytes` bytes at `at`.
    ///
    /// # Errors
    /// The rule if they leave the file.
    pub fn bytes(&mut self, at: u64, len_bytes: u64) -> Read<Cow<'a, [u8]>> {
        let refuse = |detail: &'static str| Error::malformed(self.rule, detail).at(at);
        let end = at
            .checked_add(len_bytes)
            .filter(|end| *end <= self.len_bytes);
        let Some(end) = end else {
            return Err(refuse("a value leaves the file, which is cut or damaged").into());
        };
        let left = self.budget_bytes.checked_sub(len_bytes);
        let left = left.ok_or_else(|| refuse("values of the file overlap too often"))?;
        self.budget_bytes = left;
        if let Some(bytes) = (self.fetched)(at..end) {
            return Ok(bytes);
        }
        let blocks = at / self.block_bytes..end.div_ceil(self.block_bytes);
        self.missing.extend(blocks);
        Err(Stop::Missing)
    }

    pub fn array<const N: usize>(&mut self, at: u64) -> Read<[u8; N]> {
        let bytes = self.bytes(at, N as u64)?;
        bytes.first_chunk().copied().ok_or(Stop::Missing)
    }
}
