//! The values of metadata (docs/formats/gguf.md 2). They are checked when the
//! header is parsed, and converted to text only when they are shown.

use alloc::format;
use alloc::string::{String, ToString};

use super::field_reader::{FieldReader, Read, Stop};
use crate::container::foreign::byte_order::ByteOrder;
use crate::{Error, Rule};

/// The number of elements of an array that [`MetadataValue::text`] shows.
const SHOWN_ELEMENTS: u64 = 8;

/// The number of characters of a string in an array that
/// [`MetadataValue::text`] shows.
const SHOWN_CHARACTERS: usize = 40;

/// The deepest nesting of arrays: arrays of arrays of arrays of arrays.
const DEPTH: u32 = 4;

/// The least length in bytes of an array's element that is itself an array.
const ARRAY_HEAD_BYTES: u64 = 12;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

use ValueType::{Array, Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

/// The types, at the index that is their number in a file.
const TYPES: [ValueType; 13] = [
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    ValueType::String,
    Array,
    U64,
    I64,
    F64,
];

impl ValueType {
    fn read(reader: &mut FieldReader) -> Read<Self> {
        let at = reader.position();
        let number = reader.u32("the type of a value")?;
        let known = usize::try_from(number).ok().and_then(|n| TYPES.get(n));
        Ok(*known.ok_or_else(|| {
            let detail = format!("a value has the unknown type {number}; known are 0 to 12");
            Error::malformed(Rule::GgufValueType, detail).at(at)
        })?)
    }

    /// Returns the length in bytes of a number or truth value; `None` for
    /// strings and arrays.
    fn width_bytes(self) -> Option<u64> {
        match self {
            U8 | I8 | Bool => Some(1),
            U16 | I16 => Some(2),
            U32 | I32 | F32 => Some(4),
            U64 | I64 | F64 => Some(8),
            ValueType::String | Array => None,
        }
    }

    /// Checks a value of this type at nesting depth `depth` and moves past it.
    fn skip(self, reader: &mut FieldReader, depth: u32) -> Read<()> {
        match self {
            ValueType::String => reader.string("a string").map(drop),
            Array => skip_array(reader, depth + 1),
            number => {
                let width = number.width_bytes().unwrap_or_default();
                reader.take(width, "a value", Rule::Truncated).map(drop)
            }
        }
    }
}

/// Reads the element type and the number of elements of an array, and compares
/// the number with the rest of the file.
fn array_head(reader: &mut FieldReader) -> Read<(ValueType, u64)> {
    let of = ValueType::read(reader)?;
    let at = reader.position();
    let count = reader.u64("the number of elements of an array")?;
    let least_bytes = match of {
        ValueType::String => 8,
        Array => ARRAY_HEAD_BYTES,
        number => number.width_bytes().unwrap_or(1),
    };
    if count
        .checked_mul(least_bytes)
        .is_none_or(|bytes| bytes > reader.left())
    {
        let detail = format!(
            "an array has {count} elements, and the file ends after {} bytes",
            reader.left()
        );
        return Err(Error::malformed(Rule::GgufArray, detail).at(at).into());
    }
    Ok((of, count))
}

fn skip_array(reader: &mut FieldReader, depth: u32) -> Read<()> {
    if depth > DEPTH {
        let detail = format!("arrays are nested more than {DEPTH} levels deep");
        let error = Error::malformed(Rule::GgufArray, detail);
        return Err(error.at(reader.position()).into());
    }
    let (of, count) = array_head(reader)?;
    if let Some(width) = of.width_bytes() {
        // The head has checked that the product fits.
        let bytes = count.saturating_mul(width);
        return reader.take(bytes, "an array", Rule::GgufArray).map(drop);
    }
    let start = reader.position();
    for done in 0..count {
        of.skip(reader, depth).map_err(|stop| match stop {
            Stop::Needs(end) => {
                let consumed = reader.position() - start;
                Stop::Needs(end.saturating_add(estimate(consumed, done, count - done)))
            }
            refused @ Stop::Refused(_) => refused,
        })?;
    }
    Ok(())
}

/// Estimates the length in bytes of the `left` elements of an array from the
/// `done` ones before them.
fn estimate(consumed_bytes: u64, done: u64, left: u64) -> u64 {
    const UNKNOWN_BYTES: u64 = 16;
    let mean_bytes = consumed_bytes.checked_div(done).unwrap_or(UNKNOWN_BYTES);
    left.saturating_mul(mean_bytes)
}

/// The value of a metadata entry, in its stored encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataValue<'a> {
    value_type: ValueType,
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> MetadataValue<'a> {
    /// Reads the type of a value, and checks the value that follows.
    pub(super) fn read(reader: &mut FieldReader<'a>) -> Read<Self> {
        let value_type = ValueType::read(reader)?;
        let mut after = reader.clone();
        value_type.skip(&mut after, 0)?;
        let len_bytes = after.position() - reader.position();
        Ok(Self {
            value_type,
            bytes: reader.take(len_bytes, "a value", Rule::Truncated)?,
            order: reader.order,
        })
    }

    fn reader(&self) -> FieldReader<'a> {
        FieldReader::new(self.bytes, self.bytes.len() as u64, self.order)
    }

    /// Returns the value if it is a 32-bit unsigned integer.
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        let is_u32 = self.value_type == U32;
        is_u32.then(|| self.reader().u32("").ok()).flatten()
    }

    /// Returns the value as text: a string as it is, with replacement
    /// characters where it is not UTF-8; a number in decimal; `true` or
    /// `false`. Of an array, the text has the first 8 elements and the number
    /// of elements.
    #[must_use]
    pub fn text(&self) -> String {
        let mut reader = self.reader();
        let mut out = String::new();
        // Parsing the header has checked the value, so reading it succeeds.
        let _ = match self.value_type {
            ValueType::String => reader.string("").map(|bytes| {
                out = String::from_utf8_lossy(bytes).into_owned();
            }),
            other => show(other, &mut reader, &mut out),
        };
        out
    }
}

fn show(value_type: ValueType, reader: &mut FieldReader, out: &mut String) -> Read<()> {
    let number = match value_type {
        U8 => u8::from_le_bytes(reader.array("")?).to_string(),
        I8 => i8::from_le_bytes(reader.array("")?).to_string(),
        U16 => u16::from_le_bytes(reader.array("")?).to_string(),
        I16 => i16::from_le_bytes(reader.array("")?).to_string(),
        U32 => reader.u32("")?.to_string(),
        I32 => i32::from_le_bytes(reader.array("")?).to_string(),
        F32 => f32::from_le_bytes(reader.array("")?).to_string(),
        U64 => reader.u64("")?.to_string(),
        I64 => i64::from_le_bytes(reader.array("")?).to_string(),
        F64 => f64::from_le_bytes(reader.array("")?).to_string(),
        Bool => (reader.array::<1>("")? != [0]).to_string(),
        ValueType::String => quoted(reader.string("")?),
        Array => return show_array(reader, out),
    };
    out.push_str(&number);
    Ok(())
}

fn show_array(reader: &mut FieldReader, out: &mut String) -> Read<()> {
    let (of, count) = array_head(reader)?;
    out.push('[');
    for number in 0..count {
        let separator = if number == 0 { "" } else { ", " };
        if number < SHOWN_ELEMENTS {
            out.push_str(separator);
            show(of, reader, out)?;
        } else {
            // Arrays in this array are followed by others, so the rest is read.
            of.skip(reader, 0)?;
        }
    }
    if count > SHOWN_ELEMENTS {
        out.push_str(&format!(", … ({count} elements)"));
    }
    out.push(']');
    Ok(())
}

fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}
