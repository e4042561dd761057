//! A reader for the fields of a header of which only the first bytes may have
//! been fetched.

use alloc::format;

use crate::bytes::Cursor;
use crate::container::foreign::byte_order::ByteOrder;
use crate::{Error, Rule};

/// The reason why a field cannot be read.
pub(super) enum Stop {
    /// The field continues after the fetched bytes. The value is the number of
    /// bytes from the start of the file that are required at least.
    Needs(u64),
    /// The header is malformed.
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

pub(super) type Read<T> = Result<T, Stop>;

/// A cursor over the first bytes of a file, which distinguishes fields that
/// leave the file from fields that have not been fetched.
#[derive(Clone)]
pub(super) struct FieldReader<'a> {
    cursor: Cursor<'a>,
    file_len_bytes: u64,
    pub order: ByteOrder,
}

impl<'a> FieldReader<'a> {
    pub fn new(head: &'a [u8], file_len_bytes: u64, order: ByteOrder) -> Self {
        Self {
            cursor: Cursor::new(head),
            file_len_bytes,
            order,
        }
    }

    pub fn position(&self) -> u64 {
        self.cursor.position() as u64
    }

    /// Returns the number of bytes from here to the end of the file.
    pub fn left(&self) -> u64 {
        self.file_len_bytes.saturating_sub(self.position())
    }

    /// Returns the next `len_bytes` bytes. `what` names the field in messages,
    /// and `rule` is broken if it leaves the file.
    pub fn take(&mut self, len_bytes: u64, what: &str, rule: Rule) -> Read<&'a [u8]> {
        if len_bytes > self.left() {
            let detail = format!(
                "{what} has {len_bytes} bytes, and the file ends after {}",
                self.left()
            );
            return Err(Error::malformed(rule, detail).at(self.position()).into());
        }
        if len_bytes > self.cursor.remaining() as u64 {
            return Err(Stop::Needs(self.position() + len_bytes));
        }
        Ok(self.cursor.take(len_bytes, what)?)
    }

    pub fn array<const N: usize>(&mut self, what: &str) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what, Rule::Truncated)?);
        if self.order == ByteOrder::Big {
            array.reverse();
        }
        Ok(array)
    }

    pub fn u32(&mut self, what: &str) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads a length and that many bytes.
    pub fn string(&mut self, what: &str) -> Read<&'a [u8]> {
        let len_bytes = self.u64(what)?;
        self.take(len_bytes, what, Rule::GgufString)
    }

    /// Reads a string that has to be UTF-8; otherwise it breaks `rule`.
    pub fn text(&mut self, what: &str, rule: Rule) -> Read<&'a str> {
        let at = self.position();
        let bytes = self.string(what)?;
        Ok(core::str::from_utf8(bytes)
            .map_err(|_| Error::malformed(rule, format!("{what} is not UTF-8")).at(at))?)
    }
}
