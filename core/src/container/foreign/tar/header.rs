//! The header of a member, and the records that replace some of its fields
//! (docs/formats/tar.md 2 and 3).

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Error, Result, Rule};

/// The length in bytes of a block. A header is one block, and data are padded to a
/// multiple of it.
pub(super) const BLOCK_BYTES: u64 = 512;

const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: Range<usize> = 257..262;
const AFTER_MAGIC: usize = 262;
const PREFIX: Range<usize> = 345..500;

/// Returns whether a file with these first bytes is a tar archive: it has the magic, and a
/// checksum of octal digits.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'7' | b' ' | 0);
    let checksum = head.get(CHECKSUM);
    head.get(MAGIC).is_some_and(|magic| magic == b"ustar")
        && checksum.is_some_and(|digits| digits.iter().all(is_digit))
}

/// The role of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file.
    File,
    /// Records about the next member.
    Records,
    /// Records about all members that follow.
    GlobalRecords,
    /// The name of the next member, from GNU tar.
    LongName,
    /// The name of the file that the next member refers to, from GNU tar.
    LongLink,
    /// A folder, a link or a device, which have no data.
    Empty,
    /// Data of any other type.
    Other,
}

/// The header of a member.
#[derive(Debug)]
pub(super) struct Header<'b> {
    pub kind: Kind,
    /// The length of the data in bytes.
    pub size: u64,
    block: &'b [u8],
}

pub(super) fn refuse(rule: Rule, detail: impl Into<Cow<'static, str>>, at: u64) -> Error {
    Error::malformed(rule, detail).at(at)
}

impl<'b> Header<'b> {
    /// Parses a block, which is at the offset `at`.
    ///
    /// # Errors
    /// [`Rule::TarHeader`] for a block that differs from its checksum, for a length that is
    /// no number, and for a type of members whose data cannot be skipped.
    pub fn parse(block: &'b [u8], at: u64) -> Result<Self> {
        let field = |range: Range<usize>| block.get(range).unwrap_or_default();
        let refuse = |detail: &'static str| refuse(Rule::TarHeader, detail, at);
        let stated = number(field(CHECKSUM));
        if !checksums(block).map(Some).contains(&stated) {
            return Err(refuse("the header of a member differs from its checksum"));
        }
        let size = number(field(SIZE));
        let size = size.ok_or_else(|| refuse("the length of a member is not a number"))?;
        let kind = match block.get(TYPE).copied().unwrap_or_default() {
            b'0' | b'7' | 0 => Kind::File,
            b'1'..=b'6' => Kind::Empty,
            b'x' | b'X' => Kind::Records,
            b'g' => Kind::GlobalRecords,
            b'L' => Kind::LongName,
            b'K' => Kind::LongLink,
            b'S' => {
                let detail = "the archive has a member with holes, which are not read. Unpack \
                              it, and open the model in it";
                return Err(refuse(detail));
            }
            b'M' => {
                let detail = "the archive continues another one. Join them first";
                return Err(refuse(detail));
            }
            _ => Kind::Other,
        };
        Ok(Self { kind, size, block })
    }

    /// Returns the name in the header.
    pub fn name(&self) -> Vec<u8> {
        let field = |range: Range<usize>| text(self.block.get(range).unwrap_or_default());
        // GNU tar uses the bytes of the prefix for times.
        let prefix = match self.block.get(AFTER_MAGIC) {
            Some(0) => field(PREFIX),
            _ => &[],
        };
        match prefix {
            [] => field(NAME).to_vec(),
            prefix => [prefix, b"/", field(NAME)].concat(),
        }
    }
}

/// Returns the bytes of a field before the first zero.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the sums of the bytes of a block, in which the checksum counts as spaces. Some
/// writers add bytes with a sign, which gives the second sum, if it is not negative.
fn checksums(block: &[u8]) -> [u64; 2] {
    let (mut unsigned, mut signed) = (0u64, 0i64);
    for (at, byte) in block.iter().enumerate() {
        let byte = if CHECKSUM.contains(&at) { b' ' } else { *byte };
        unsigned += u64::from(byte);
        signed += i64::from(i8::from_ne_bytes([byte]));
    }
    [unsigned, u64::try_from(signed).unwrap_or(unsigned)]
}

/// Returns the number in a field: octal digits, or bytes in descending order after a byte
/// `80`. A field without digits is 0. Returns `None` for other bytes and for numbers of
/// more than 64 bits.
fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, bytes)) = field.split_first() {
        let mut bytes = bytes.iter();
        return bytes.try_fold(0u64, |value, byte| {
            value.checked_mul(256)?.checked_add(u64::from(*byte))
        });
    }
    let mut value = 0u64;
    for byte in field.trim_ascii_start() {
        match byte {
            b'0'..=b'7' => value = value.checked_mul(8)? + u64::from(byte - b'0'),
            b' ' | 0 => break,
            _ => return None,
        }
    }
    Some(value)
}

/// The fields of a header that the headers before it replace.
#[derive(Debug, Clone, Default)]
pub(super) struct Replaced {
    pub name: Option<Vec<u8>>,
    pub size: Option<u64>,
}

impl Replaced {
    /// Parses records `LENGTH KEY=VALUE`, each with a line feed at its end, which are at the
    /// offset `at`. The length is that of the whole record in decimal digits. Only a name
    /// and a length are used.
    ///
    /// # Errors
    /// [`Rule::TarHeader`] for bytes that are no such records.
    pub fn parse(records: &[u8], at: u64) -> Result<Self> {
        let mut found = Self::default();
        let mut rest = records;
        while rest.first().is_some_and(|byte| *byte != 0) {
            let place = at + (records.len() - rest.len()) as u64;
            let malformed = || refuse(Rule::TarHeader, "a record about a member is damaged", place);
            let (key, value, after) = record(rest).ok_or_else(malformed)?;
            match key {
                b"path" => found.name = Some(value.to_vec()),
                b"size" => found.size = Some(decimal(value).ok_or_else(malformed)?),
                _ => {}
            }
            rest = after;
        }
        Ok(found)
    }
}

/// Splits off the first record: its key, its value, and the bytes after it.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(20).position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(records.get(..space)?)?).ok()?;
    let (record, after) = records.split_at_checked(len)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some((pair.get(..equals)?, pair.get(equals + 1..)?, after))
}

/// Returns the number that decimal digits are.
fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}
