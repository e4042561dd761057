//! The fields of messages of Protocol Buffers (docs/formats/onnx.md 1).

use alloc::format;
use core::ops::Range;

use crate::container::foreign::window::{Read, Stop, Window};
use crate::{Error, Rule};

/// The greatest length in bytes of a number of variable length.
const NUMBER_BYTES: u64 = 10;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// A number of variable length.
    Number(u64),
    /// The bits of a number of 4 or 8 bytes, and its range in the file.
    Fixed(u64, Range<u64>),
    /// The range of the file that contains a text, bytes, a message or packed
    /// numbers.
    Bytes(Range<u64>),
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// The number of the field, at least 1.
    pub number: u64,
    pub value: FieldValue,
    /// The offset of the first byte after the field.
    pub end: u64,
}

pub(super) fn refuse(detail: impl Into<alloc::borrow::Cow<'static, str>>, at: u64) -> Error {
    Error::malformed(Rule::OnnxProtobuf, detail).at(at)
}

/// Reads the field at `at` of a message that ends at `message_end`. Bytes of
/// the field itself need not be in the window.
pub(super) fn read_field(window: &Window, at: u64, message_end: u64) -> Read<Field> {
    let end = at.saturating_add(2 * NUMBER_BYTES).min(message_end);
    let mut fields = Numbers {
        bytes: window.read(at, at..end)?,
        at,
    };
    let key = fields.next()?;
    let number = key >> 3;
    if number == 0 || number >= 1 << 29 {
        return Err(refuse(format!("{number} is not the number of a field"), at).into());
    }
    let start;
    let value = match key & 7 {
        0 => {
            let value = fields.next()?;
            return Ok(Field {
                number,
                value: FieldValue::Number(value),
                end: fields.at,
            });
        }
        1 => {
            start = fields.at;
            FieldValue::Fixed(fields.fixed(8)?, start..start + 8)
        }
        5 => {
            start = fields.at;
            FieldValue::Fixed(fields.fixed(4)?, start..start + 4)
        }
        2 => {
            let len_bytes = fields.next()?;
            let left = message_end.saturating_sub(fields.at);
            if len_bytes > left {
                let detail = format!(
                    "a field has {len_bytes} bytes, and its message ends after {left}; the file \
                     is cut or damaged"
                );
                return Err(refuse(detail, at).into());
            }
            FieldValue::Bytes(fields.at..fields.at + len_bytes)
        }
        wire => {
            let detail = format!("a field has the wire type {wire}, which is not in use");
            return Err(refuse(detail, at).into());
        }
    };
    let end = match &value {
        FieldValue::Bytes(range) | FieldValue::Fixed(_, range) => range.end,
        FieldValue::Number(_) => fields.at,
    };
    Ok(Field { number, value, end })
}

/// Reads numbers of variable length sequentially.
pub(super) struct Numbers<'a> {
    bytes: &'a [u8],
    /// The offset of the next number in the file.
    at: u64,
}

impl<'a> Numbers<'a> {
    /// Creates the reader of `bytes`, which begin at the offset `at`.
    pub fn new(bytes: &'a [u8], at: u64) -> Self {
        Self { bytes, at }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the next number.
    ///
    /// # Errors
    /// [`Rule::OnnxProtobuf`] for a number that has no end, or has more than 64
    /// bits.
    pub fn next(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for (shift, byte) in (0..64).step_by(7).zip(self.bytes) {
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(refuse("a number has more than 64 bits", self.at));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let len = shift / 7 + 1;
                self.bytes = self.bytes.get(len..).unwrap_or_default();
                self.at += len as u64;
                return Ok(value);
            }
        }
        let detail = "a number has no end inside its message; the file is cut or damaged";
        Err(refuse(detail, self.at))
    }

    /// Reads a number of `len` bytes.
    fn fixed(&mut self, len: usize) -> Result<u64, Error> {
        let Some((number, rest)) = self.bytes.split_at_checked(len) else {
            let detail = format!("a number of {len} bytes passes the end of its message");
            return Err(refuse(detail, self.at));
        };
        self.bytes = rest;
        let bits = number.iter().rev();
        Ok(bits.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// Reads the bytes of a text of at most `most_bytes`; a longer one is cut.
pub(super) fn text<'a>(
    window: &Window<'a>,
    at: u64,
    range: &Range<u64>,
    most_bytes: u64,
) -> Result<&'a [u8], Stop> {
    let end = range.end.min(range.start.saturating_add(most_bytes));
    window.read(at, range.start..end)
}
