//! Records that consist of a tag, a length and a value. Later versions can add
//! records that older readers skip (docs/formats/zstn-integrity.md 2,
//! docs/formats/zstn-delta.md 1).

use alloc::vec::Vec;
use core::slice::ChunksExact;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The tag of a record: four ASCII letters.
pub type Tag = [u8; 4];

/// The value of a record.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// The offset of the record.
    pub at: u64,
    /// The bytes of the value.
    pub bytes: &'a [u8],
    rule: Rule,
}

impl<'a> Value<'a> {
    /// Returns the value as an array; fails if it has another length.
    pub fn array<const N: usize>(self) -> Result<[u8; N]> {
        self.bytes.try_into().map_err(|_| self.wrong_len())
    }

    /// Returns the entries of a value that consists of entries of `entry_bytes`
    /// bytes each.
    pub fn entries(self, entry_bytes: usize) -> Result<ChunksExact<'a, u8>> {
        let entries = self.bytes.chunks_exact(entry_bytes);
        match entries.remainder() {
            [] => Ok(entries),
            _ => Err(self.wrong_len()),
        }
    }

    fn wrong_len(self) -> Error {
        let detail = "a record does not have the length that its tag requires";
        Error::malformed(self.rule, detail).at(self.at)
    }
}

/// Reads the records that fill `bytes`, and returns the values of those with a
/// tag in `known`, in the order of `known`. Records with other tags are
/// skipped.
///
/// # Errors
/// The given `rule` for a known tag that occurs twice.
pub fn read<'a, const N: usize>(
    bytes: &'a [u8],
    known: [Tag; N],
    rule: Rule,
) -> Result<[Option<Value<'a>>; N]> {
    let mut values = [None; N];
    read_into(bytes, &known, rule, &mut values)?;
    Ok(values)
}

/// Reads the records into `values`, which has one element for each known tag.
/// The function is not generic over the number of tags, so that it is compiled
/// only once.
fn read_into<'a>(
    bytes: &'a [u8],
    known: &[Tag],
    rule: Rule,
    values: &mut [Option<Value<'a>>],
) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    while cursor.remaining() > 0 {
        let at = cursor.position() as u64;
        let (tag, bytes) = next(&mut cursor)?;
        let Some(number) = known.iter().position(|known| *known == tag) else {
            continue;
        };
        if values[number].replace(Value { at, bytes, rule }).is_some() {
            return Err(Error::malformed(rule, "a record occurs twice").at(at));
        }
    }
    Ok(())
}

fn next<'a>(cursor: &mut Cursor<'a>) -> Result<(Tag, &'a [u8])> {
    let tag = cursor.array("tag of a record")?;
    let len = cursor.u64("length of a record")?;
    Ok((tag, cursor.take(len, "a record")?))
}

/// Appends the records that fill `records`, except those with this `tag`.
pub fn copy_without(out: &mut Vec<u8>, tag: Tag, records: &[u8]) -> Result<()> {
    let mut cursor = Cursor::new(records);
    while cursor.remaining() > 0 {
        let (found, value) = next(&mut cursor)?;
        if found != tag {
            write(out, found, value);
        }
    }
    Ok(())
}

/// Appends a record.
pub fn write(out: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    out.extend_from_slice(&tag);
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Tag; 2] = [*b"AAAA", *b"BBBB"];

    #[test]
    fn known_records_come_in_the_order_asked_for() {
        let mut bytes = Vec::new();
        for (tag, value) in [(b"BBBB", &b"b"[..]), (b"STAT", b"new"), (b"STAT", b"new")] {
            write(&mut bytes, *tag, value);
        }
        let [a, b] = read(&bytes, KNOWN, Rule::DeltaSeal).expect("in order");
        assert!(a.is_none());
        let b = b.expect("a record");
        assert_eq!((b.at, b.bytes), (0, &b"b"[..]));
        assert_eq!(b.array::<1>(), Ok(*b"b"));
        assert_eq!(b.array::<2>().unwrap_err().rule(), Some(Rule::DeltaSeal));
        assert_eq!(b.entries(2).unwrap_err().rule(), Some(Rule::DeltaSeal));
    }

    #[test]
    fn a_known_record_occurs_once() {
        let mut bytes = Vec::new();
        write(&mut bytes, KNOWN[0], b"one");
        let second = bytes.len() as u64;
        write(&mut bytes, KNOWN[0], b"one");
        let error = read(&bytes, KNOWN, Rule::ZstnIntegrity).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::ZstnIntegrity));
        assert_eq!(error.offset(), Some(second));
        let cut = read(&bytes[..bytes.len() - 1], KNOWN, Rule::ZstnIntegrity).unwrap_err();
        assert_eq!(cut.rule(), Some(Rule::Truncated));
    }
}
