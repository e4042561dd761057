//! The first bytes of a msgpack value, which state its type and its length
//! (docs/formats/msgpack.md 1).

use alloc::format;
use alloc::string::String;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The greatest length in bytes of the head of a value: its type, a length of
/// four bytes, and the type of an extension.
pub(super) const HEAD_BYTES: u64 = 9;

/// The head of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Head {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// A text of this many bytes.
    Text(u64),
    /// This many bytes.
    Bytes(u64),
    /// This many values.
    List(u64),
    /// This many pairs of keys and values.
    Map(u64),
    /// An extension of this type and length.
    Extension(i8, u64),
}

/// Reads big-endian numbers.
struct Reader<'a> {
    cursor: Cursor<'a>,
}

impl Reader<'_> {
    /// Returns the next `N` bytes as the low bytes of a number.
    fn number<const N: usize>(&mut self) -> Result<u64> {
        let bytes: [u8; N] = self.cursor.array("a value")?;
        let number = bytes.iter();
        Ok(number.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

impl Head {
    /// Reads the head at the start of `bytes`, and returns its length.
    ///
    /// # Errors
    /// [`Rule::MsgpackType`] for the reserved type.
    pub fn read(bytes: &[u8]) -> Result<(Self, u64)> {
        let mut reader = Reader {
            cursor: Cursor::new(bytes),
        };
        let first = reader.cursor.u8("a value")?;
        let head = match first {
            0x00..=0x7f => Self::Unsigned(first.into()),
            0x80..=0x8f => Self::Map((first & 0x0f).into()),
            0x90..=0x9f => Self::List((first & 0x0f).into()),
            0xa0..=0xbf => Self::Text((first & 0x1f).into()),
            0xc0 => Self::Nil,
            0xc1 => {
                let detail = "a value begins with the byte C1, which msgpack reserves";
                return Err(Error::malformed(Rule::MsgpackType, detail));
            }
            0xc2 | 0xc3 => Self::Bool(first == 0xc3),
            0xc4 => Self::Bytes(reader.number::<1>()?),
            0xc5 => Self::Bytes(reader.number::<2>()?),
            0xc6 => Self::Bytes(reader.number::<4>()?),
            0xc7 => reader.extension::<1>()?,
            0xc8 => reader.extension::<2>()?,
            0xc9 => reader.extension::<4>()?,
            0xca => Self::Float(f32::from_be_bytes(reader.cursor.array("a float")?).into()),
            0xcb => Self::Float(f64::from_be_bytes(reader.cursor.array("a float")?)),
            0xcc => Self::Unsigned(reader.number::<1>()?),
            0xcd => Self::Unsigned(reader.number::<2>()?),
            0xce => Self::Unsigned(reader.number::<4>()?),
            0xcf => Self::Unsigned(reader.number::<8>()?),
            0xd0 => Self::Signed(i8::from_be_bytes(reader.cursor.array("a number")?).into()),
            0xd1 => Self::Signed(i16::from_be_bytes(reader.cursor.array("a number")?).into()),
            0xd2 => Self::Signed(i32::from_be_bytes(reader.cursor.array("a number")?).into()),
            0xd3 => Self::Signed(i64::from_be_bytes(reader.cursor.array("a number")?)),
            0xd4..=0xd8 => {
                let kind = reader.cursor.u8("the type of an extension")?;
                Self::Extension(kind.cast_signed(), 1 << (first - 0xd4))
            }
            0xd9 => Self::Text(reader.number::<1>()?),
            0xda => Self::Text(reader.number::<2>()?),
            0xdb => Self::Text(reader.number::<4>()?),
            0xdc => Self::List(reader.number::<2>()?),
            0xdd => Self::List(reader.number::<4>()?),
            0xde => Self::Map(reader.number::<2>()?),
            0xdf => Self::Map(reader.number::<4>()?),
            0xe0..=0xff => Self::Signed(first.cast_signed().into()),
        };
        Ok((head, reader.cursor.position() as u64))
    }

    /// Returns the number of bytes that follow the head and belong to the value.
    pub fn len_bytes(self) -> u64 {
        match self {
            Self::Text(len) | Self::Bytes(len) | Self::Extension(_, len) => len,
            _ => 0,
        }
    }

    /// Returns a number that is not negative.
    pub fn as_size(self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(number),
            Self::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// Returns a plain value as text, except texts and bytes.
    pub fn shown(self) -> Option<String> {
        Some(match self {
            Self::Bool(value) => format!("{value}"),
            Self::Unsigned(number) => format!("{number}"),
            Self::Signed(number) => format!("{number}"),
            Self::Float(number) => format!("{number}"),
            _ => return None,
        })
    }
}

impl Reader<'_> {
    fn extension<const N: usize>(&mut self) -> Result<Head> {
        let len_bytes = self.number::<N>()?;
        let kind = self.cursor.u8("the type of an extension")?;
        Ok(Head::Extension(kind.cast_signed(), len_bytes))
    }
}
