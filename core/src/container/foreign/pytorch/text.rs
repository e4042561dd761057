//! Text in pickles: lines, strings with a length, and two kinds of escapes.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::value::Object;
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

fn malformed() -> Error {
    Error::malformed(Rule::PyTorchPickle, "text in the pickle is malformed")
}

/// Reads up to the next line feed, which is not returned.
///
/// # Errors
/// [`Rule::Truncated`] if there is none.
pub(super) fn line<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let mut rest = cursor.clone();
    let all = rest.take(cursor.remaining() as u64, "a line")?;
    let len = all.iter().position(|byte| *byte == b'\n');
    let len = len.unwrap_or(all.len()) as u64;
    let line = cursor.take(len, "a line")?;
    cursor.u8("the end of a line")?;
    Ok(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the text of an ASCII line.
pub(super) fn ascii(line: &[u8]) -> Option<&str> {
    line.is_ascii()
        .then(|| core::str::from_utf8(line).ok())
        .flatten()
}

/// Reads the text of an opcode. A byte string of Python 2 that is not UTF-8 becomes
/// bytes.
pub(super) fn read<'a>(opcode: u8, cursor: &mut Cursor<'a>) -> Result<Object<'a>> {
    let len_bytes = match opcode {
        b'S' => return quoted(line(cursor)?),
        b'V' => return Ok(of_text(escaped(line(cursor)?, Escapes::Unicode)?)),
        b'U' | 0x8c => cursor.u8("a length")?.into(),
        b'T' | b'X' => cursor.u32("a length")?.into(),
        _ => cursor.u64("a length")?,
    };
    let object = of_text(cursor.take(len_bytes, "text")?.into());
    match (opcode, &object) {
        (b'U' | b'T', _) | (_, Object::Text(_)) => Ok(object),
        _ => Err(malformed()),
    }
}

fn of_text(bytes: Cow<'_, [u8]>) -> Object<'_> {
    let len_bytes = bytes.len() as u64;
    let text = match bytes {
        Cow::Borrowed(bytes) => core::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    text.map_or(Object::Bytes(len_bytes), Object::Text)
}

/// Parses a string in quotes, as Python 2 writes it.
fn quoted(line: &[u8]) -> Result<Object<'_>> {
    let line = line.trim_ascii();
    let inner = match line {
        [open @ (b'\'' | b'"'), inner @ .., close] if open == close => inner,
        _ => return Err(malformed()),
    };
    Ok(of_text(escaped(inner, Escapes::Bytes)?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// The escapes of a byte string.
    Bytes,
    /// `\u` and `\U` only, in Latin-1.
    Unicode,
}

/// Replaces escapes. Text without any is borrowed.
fn escaped(text: &[u8], escapes: Escapes) -> Result<Cow<'_, [u8]>> {
    if text.is_ascii() && !text.contains(&b'\\') {
        return Ok(text.into());
    }
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            match escapes {
                Escapes::Bytes => out.push(byte),
                Escapes::Unicode => push(&mut out, byte.into()),
            }
            continue;
        }
        let (digits, is_byte) = match (escapes, rest.first()) {
            (Escapes::Unicode, Some(b'u')) => (4, false),
            (Escapes::Unicode, Some(b'U')) => (8, false),
            (Escapes::Unicode, _) => {
                out.push(b'\\');
                continue;
            }
            (Escapes::Bytes, Some(b'x')) => (2, true),
            (Escapes::Bytes, Some(letter)) => {
                out.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'\\' | b'\'' | b'"' => *letter,
                    _ => return Err(malformed()),
                });
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            (Escapes::Bytes, None) => return Err(malformed()),
        };
        let code = rest.get(1..=digits).and_then(ascii);
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        let code = code.ok_or_else(malformed)?;
        match u8::try_from(code) {
            Ok(byte) if is_byte => out.push(byte),
            _ => push(&mut out, code),
        }
        rest = rest.get(digits + 1..).unwrap_or_default();
    }
    Ok(out.into())
}

/// Appends a character in UTF-8; half of a surrogate pair becomes U+FFFD.
fn push(out: &mut Vec<u8>, code: u32) {
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(opcode: u8, bytes: &[u8]) -> Option<String> {
        match read(opcode, &mut Cursor::new(bytes)).ok()? {
            Object::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    #[test]
    fn text_of_every_opcode() {
        assert_eq!(text(b'X', b"\x02\0\0\0ab").as_deref(), Some("ab"));
        assert_eq!(text(0x8c, b"\x02\xc3\xa9").as_deref(), Some("é"));
        for opcode in [0x8c, b'U'] {
            assert_eq!(text(opcode, b"\x01\xe9"), None);
        }
        assert!(read(b'U', &mut Cursor::new(b"\x01\xe9")).is_ok());
        assert!(read(0x8c, &mut Cursor::new(b"\x01\xe9")).is_err());
        assert_eq!(text(b'V', b"\\u00e9\xe9\\n\n").as_deref(), Some("éé\\n"));
        assert_eq!(text(b'V', b"\\U0001F600\n").as_deref(), Some("😀"));
        assert_eq!(text(b'S', b"'a\\x41\\'\\n'\n").as_deref(), Some("aA'\n"));
        assert_eq!(text(b'S', b"\"\"\n").as_deref(), Some(""));
        for malformed in [
            &b"'a\n"[..],
            b"'\n",
            b"a\n",
            b"'\\q'\n",
            b"'\\x4'\n",
            b"'a'",
        ] {
            assert_eq!(text(b'S', malformed), None, "{malformed:?}");
        }
    }
}
