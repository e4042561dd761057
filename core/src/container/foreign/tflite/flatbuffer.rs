//! Tables, vectors and texts of a FlatBuffer (docs/formats/tflite.md 1), of
//! which only some bytes have been fetched.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use crate::container::foreign::random_access::{Fetched, RandomAccess, Read};
use crate::{Error, Rule};

/// The length in bytes of the blocks in which missing bytes are requested. The
/// head of a file consists of whole blocks.
pub(crate) const BLOCK_BYTES: u64 = 4 << 10;

/// A FlatBuffer, of which only some bytes have been fetched.
pub(super) struct Buffer<'f, 'a>(RandomAccess<'f, 'a>);

/// A table: the offset of its fields, and their offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    at: u64,
    len_bytes: u64,
    slots: u64,
    slot_count: u64,
}

pub(super) fn refuse(detail: &'static str, at: u64) -> Error {
    Error::malformed(Rule::TfliteFlatbuffer, detail).at(at)
}

impl<'f, 'a> Buffer<'f, 'a> {
    pub fn new(fetched: &'f Fetched<'a>, len_bytes: u64) -> Self {
        let rule = Rule::TfliteFlatbuffer;
        Self(RandomAccess::new(fetched, len_bytes, BLOCK_BYTES, rule))
    }

    pub fn missing(&self) -> Vec<Range<u64>> {
        self.0.missing()
    }

    pub fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    pub fn bytes(&mut self, at: u64, len_bytes: u64) -> Read<Cow<'a, [u8]>> {
        self.0.bytes(at, len_bytes)
    }

    fn array<const N: usize>(&mut self, at: u64) -> Read<[u8; N]> {
        self.0.array(at)
    }

    pub fn u32(&mut self, at: u64) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array(at)?))
    }

    pub fn u64(&mut self, at: u64) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }

    pub fn u8(&mut self, at: u64) -> Read<u8> {
        Ok(self.array::<1>(at)?[0])
    }

    /// Follows the offset that is stored at `at` and relative to it.
    pub fn follow(&mut self, at: u64) -> Read<u64> {
        let offset = u64::from(self.u32(at)?);
        let to = at.saturating_add(offset);
        match offset > 0 && to < self.len_bytes() {
            true => Ok(to),
            false => Err(refuse("an offset leaves the file, which is cut or damaged", at).into()),
        }
    }

    /// Reads the head of the table at `at`.
    pub fn table(&mut self, at: u64) -> Read<Table> {
        let back = i64::from(i32::from_le_bytes(self.array(at)?));
        let Some(slots) = at.checked_add_signed(-back) else {
            return Err(refuse("the description of a table is outside of the file", at).into());
        };
        let [a, b, c, d] = self.array(slots)?;
        let slots_bytes = u64::from(u16::from_le_bytes([a, b]));
        let len_bytes = u64::from(u16::from_le_bytes([c, d]));
        let end = at.checked_add(len_bytes);
        if slots_bytes < 4 || len_bytes < 4 || end.is_none_or(|end| end > self.len_bytes()) {
            return Err(refuse("a table leaves the file, which is cut or damaged", at).into());
        }
        Ok(Table {
            at,
            len_bytes,
            slots: slots + 4,
            slot_count: (slots_bytes - 4) / 2,
        })
    }

    /// Returns the offset of the field in `slot` of a table, which has
    /// `len_bytes`, or `None` if the field has its default value.
    pub fn field(&mut self, table: Table, slot: u64, len_bytes: u64) -> Read<Option<u64>> {
        if slot >= table.slot_count {
            return Ok(None);
        }
        let offset = u64::from(u16::from_le_bytes(self.array(table.slots + 2 * slot)?));
        match offset {
            0 => Ok(None),
            _ if offset + len_bytes > table.len_bytes => {
                Err(refuse("a field lies outside of its table", table.at).into())
            }
            _ => Ok(Some(table.at + offset)),
        }
    }

    /// Returns the offset of the first item and the number of items of the
    /// vector in `slot` of a table; `None` without a vector. Items have
    /// `item_bytes` each.
    pub fn vector(&mut self, table: Table, slot: u64, item_bytes: u64) -> Read<Option<(u64, u64)>> {
        let Some(at) = self.field(table, slot, 4)? else {
            return Ok(None);
        };
        let start = self.follow(at)?;
        let count = u64::from(self.u32(start)?);
        let items = start + 4;
        match count * item_bytes <= self.len_bytes().saturating_sub(items) {
            true => Ok(Some((items, count))),
            false => Err(refuse("a vector leaves the file, which is cut or damaged", at).into()),
        }
    }

    /// Returns the text in `slot` of a table, of which at most `most_bytes` are
    /// read.
    pub fn text(
        &mut self,
        table: Table,
        slot: u64,
        most_bytes: u64,
    ) -> Read<Option<Cow<'a, [u8]>>> {
        match self.vector(table, slot, 1)? {
            Some((start, count)) => self.bytes(start, count.min(most_bytes)).map(Some),
            None => Ok(None),
        }
    }
}
