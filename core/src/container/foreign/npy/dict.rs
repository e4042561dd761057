//! The header: a Python dict of three keys (docs/formats/npy.md 1).

use alloc::format;
use alloc::vec::Vec;

use super::refuse;
use crate::limits::DIMENSIONS;
use crate::{Error, Result};

/// The entries of a header.
pub(super) struct Dict<'a> {
    /// The dtype, such as `<f4`.
    pub descr: &'a str,
    pub is_fortran: bool,
    pub shape: Vec<u64>,
}

/// Parses a dict of text, truth value and tuple, and nothing else.
pub(super) fn parse(text: &[u8]) -> Result<Dict<'_>> {
    let mut parser = Parser { text, at: 0 };
    let (mut descr, mut is_fortran, mut shape) = (None, None, None);
    parser.expect(b'{')?;
    while !parser.take(b'}') {
        let key = parser.string()?;
        parser.expect(b':')?;
        let is_new = match key {
            "descr" => descr.replace(parser.string()?).is_none(),
            "fortran_order" => is_fortran.replace(parser.truth()?).is_none(),
            "shape" => shape.replace(parser.tuple()?).is_none(),
            _ => return Err(parser.refuse("an unknown key")),
        };
        if !is_new {
            return Err(parser.refuse("a key that occurs twice"));
        }
        if !parser.take(b',') {
            parser.expect(b'}')?;
            break;
        }
    }
    parser.skip_space();
    if parser.at != text.len() {
        return Err(parser.refuse("text after the dict"));
    }
    match (descr, is_fortran, shape) {
        (Some(descr), Some(is_fortran), Some(shape)) => Ok(Dict {
            descr,
            is_fortran,
            shape,
        }),
        _ => Err(parser.refuse("no `descr`, `fortran_order` or `shape`")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn refuse(&self, what: &str) -> Error {
        refuse(format!("the header has {what}"), self.at as u64)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let is_space = |byte: &&u8| b" \t\r\n".contains(byte);
        self.at += self.rest().iter().take_while(is_space).count();
    }

    /// Moves past `byte`, if it is the next one after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.rest().first() == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        match self.take(byte) {
            true => Ok(()),
            false => Err(self.refuse(&format!("no `{}` where it is expected", byte as char))),
        }
    }

    /// Reads text in single or double quotes, without escapes.
    fn string(&mut self) -> Result<&'a str> {
        self.skip_space();
        let quote = match self.rest().first() {
            Some(quote @ (b'\'' | b'"')) => *quote,
            _ => return Err(self.refuse("no text where it is expected")),
        };
        let rest = self.rest().get(1..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == quote);
        let text = len.and_then(|len| rest.get(..len));
        let text = text.filter(|text| !text.contains(&b'\\'));
        let text = text.and_then(|text| core::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| self.refuse("text that does not end or has escapes"))?;
        self.at += text.len() + 2;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.refuse("neither `True` nor `False` where one is expected"))
    }

    /// Reads a tuple of numbers. Python 2 wrote an `L` after them.
    fn tuple(&mut self) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.take(b')') {
            if sizes.len() == DIMENSIONS {
                return Err(Error::dimensions());
            }
            sizes.push(self.number()?);
            let _ = self.rest().first() == Some(&b'L') && self.take(b'L');
            if !self.take(b',') {
                if sizes.len() == 1 {
                    return Err(self.refuse("a number in place of a tuple"));
                }
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn number(&mut self) -> Result<u64> {
        self.skip_space();
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let digits = self.rest().get(..digits.count()).unwrap_or_default();
        let text = core::str::from_utf8(digits).unwrap_or_default();
        let number = text
            .parse()
            .map_err(|_| self.refuse("no size where one is expected"))?;
        self.at += digits.len();
        Ok(number)
    }
}
