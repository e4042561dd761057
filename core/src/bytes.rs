//! A checked little-endian cursor. Headers, tables and records of untrusted files are
//! parsed with it; inner loops read integers from arrays of fixed length.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Error, Result, Rule};

/// A forward reader over a slice, which checks every read against the number of
/// bytes left.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    all: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first byte.
    #[must_use]
    pub fn new(all: &'a [u8]) -> Self {
        Self { all, position: 0 }
    }

    /// Returns the number of bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.all.len() - self.position
    }

    /// Returns the bytes that are left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.all.get(self.position..).unwrap_or_default()
    }

    /// Returns the next `len_bytes` bytes. `what` names the field in the error
    /// message.
    pub fn take(&mut self, len_bytes: u64, what: &str) -> Result<&'a [u8]> {
        match usize::try_from(len_bytes) {
            Ok(len) if len <= self.remaining() => {
                let start = self.position;
                self.position += len;
                Ok(&self.all[start..self.position])
            }
            _ => Err(Error::malformed(
                Rule::Truncated,
                format!(
                    "{what} needs {len_bytes} bytes but only {} are left",
                    self.remaining()
                ),
            )
            .at(self.position as u64)),
        }
    }

    /// Reads the magic bytes at the start of a file or frame of the kind
    /// `what`.
    ///
    /// # Errors
    /// The given `rule` if the bytes are not `magic`.
    pub(crate) fn expect_magic(&mut self, magic: &[u8], rule: Rule, what: &str) -> Result<()> {
        let at = self.position as u64;
        if self.take(magic.len() as u64, "the magic")? == magic {
            return Ok(());
        }
        Err(Error::malformed(rule, format!("not a {what}")).at(at))
    }

    /// Reads the version of a file or frame of the kind `what`.
    ///
    /// # Errors
    /// The given `rule` if the version is not `expected`.
    pub(crate) fn expect_version(&mut self, expected: u8, rule: Rule, what: &str) -> Result<()> {
        let at = self.position as u64;
        let version = self.u8("the version")?;
        if version == expected {
            return Ok(());
        }
        let detail = format!("version {version} of a {what}; this reader knows version {expected}");
        Err(Error::malformed(rule, detail).at(at))
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Reads a 16-bit integer.
    pub fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Reads a 24-bit integer, as in the block headers of zstd.
    pub(crate) fn u24(&mut self, what: &str) -> Result<u32> {
        let [a, b, c] = self.array(what)?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Reads a 32-bit integer.
    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Reads a 64-bit integer.
    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
}

/// Returns the bytes `range` of `all`.
///
/// # Panics
/// If the range exceeds `all`; the caller must have checked it.
#[must_use]
pub fn part(all: &[u8], range: Range<u64>) -> &[u8] {
    &all[index(range.start)..index(range.end)]
}

/// Returns the offset of `part` in `all`, or `None` if it does not lie in it.
#[cfg(feature = "plan")]
pub(crate) fn offset_of(part: &[u8], all: &[u8]) -> Option<usize> {
    let offset = part.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
    let end = offset.checked_add(part.len())?;
    (end <= all.len()).then_some(offset)
}

/// Converts a length or position inside a slice to `usize`. Such a position always
/// fits.
///
/// # Panics
/// If it does not fit and so cannot lie inside any slice.
#[must_use]
pub fn index(position: u64) -> usize {
    usize::try_from(position).expect("a position inside memory")
}

/// Returns a zeroed buffer of `len_bytes`. The caller must have checked that
/// the input justifies the length.
///
/// # Errors
/// [`Limit`](crate::ErrorKind::Limit) if the memory or the address space (of
/// WebAssembly, for example) is too small.
pub fn buffer(len_bytes: u64) -> Result<Vec<u8>> {
    let len = reserve(&mut Vec::new(), len_bytes)?;
    // The memory is available, and an allocator can return zeroed pages without
    // filling them.
    Ok(vec![0; len])
}

/// Returns an empty buffer with a capacity of `len_bytes`; fails as [`buffer`]
/// does.
pub fn with_capacity(len_bytes: u64) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    reserve(&mut buffer, len_bytes)?;
    Ok(buffer)
}

/// Returns the first `len_bytes` of a buffer whose content does not matter. A
/// buffer that is too short is replaced; this fails as [`buffer`](self::buffer)
/// does.
pub fn scratch(buffer: &mut Vec<u8>, len_bytes: u64) -> Result<&mut [u8]> {
    if (buffer.len() as u64) < len_bytes {
        *buffer = self::buffer(len_bytes)?;
    }
    Ok(&mut buffer[..index(len_bytes)])
}

/// Resizes `buffer` to `len_bytes` and leaves the existing bytes in place;
/// fails as [`buffer`](self::buffer) does.
pub fn resize(buffer: &mut Vec<u8>, len_bytes: u64) -> Result<()> {
    if buffer.capacity() == 0 {
        *buffer = self::buffer(len_bytes)?;
    } else {
        let len = reserve(buffer, len_bytes)?;
        buffer.resize(len, 0);
    }
    Ok(())
}

fn reserve(buffer: &mut Vec<u8>, len_bytes: u64) -> Result<usize> {
    let too_large = || Error::limit(format!("{len_bytes} bytes do not fit in memory"));
    let len = usize::try_from(len_bytes).map_err(|_| too_large())?;
    buffer
        .try_reserve_exact(len.saturating_sub(buffer.len()))
        .map_err(|_| too_large())?;
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_little_endian() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cursor.u16("a").unwrap(), 0x0201);
        assert_eq!(cursor.u24("b").unwrap(), 0x05_0403);
        assert_eq!(cursor.u32("c").unwrap(), 0x0908_0706);
        assert_eq!(cursor.remaining(), 1);
    }

    #[test]
    fn a_short_read_says_where_and_what() {
        let mut cursor = Cursor::new(&[0; 5]);
        cursor.u8("flag").unwrap();
        let error = cursor.u64("length").unwrap_err();
        assert_eq!(error.rule(), Some(Rule::Truncated));
        assert_eq!(error.offset(), Some(1));
        assert!(error.to_string().contains("length needs 8 bytes"));
        assert_eq!(cursor.position(), 1, "a refused read moves nothing");
    }

    #[test]
    fn lengths_near_the_end_of_u64_do_not_wrap() {
        let mut cursor = Cursor::new(&[0; 5]);
        cursor.u8("flag").unwrap();
        assert!(cursor.take(u64::MAX, "payload").is_err());
    }
}
