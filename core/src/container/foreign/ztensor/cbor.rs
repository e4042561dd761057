//! CBOR that is checked as a whole first, so that reading it afterwards finds
//! well-formed items only (docs/formats/ztensor.md 3.1, 6.2 step 4 and 8.2).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use half::f16;
use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error as Undecodable;

use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};

/// The CBOR rules that a version has for its manifest.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// The largest number of nested levels.
    pub depth: u32,
    /// True if the deterministic encoding of RFC 8949 section 4.2.1 is
    /// required, without tags.
    pub is_deterministic: bool,
}

/// A well-formed data item.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Item<'a> {
    /// Checks that `bytes`, which begin at `offset` of the file, are exactly
    /// one well-formed item, without repeated text keys.
    pub fn check(bytes: &'a [u8], offset: u64, style: Style) -> Result<Self> {
        let mut walk = Walk::new(bytes, style);
        let why = match walk.item(style.depth) {
            Err(Fault(why)) => why,
            Ok(()) if walk.position() == bytes.len() => return Ok(Self { bytes, offset }),
            Ok(()) => "bytes follow the data",
        };
        let detail = format!("the CBOR metadata are invalid: {why}");
        Err(Error::malformed(Rule::ZTensorCbor, detail).at(offset + walk.position() as u64))
    }

    /// Returns the bytes of the item.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset of the item in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn wrong(&self, what: &str, kind: &str) -> Error {
        Error::malformed(Rule::ZTensorField, format!("`{what}` must be {kind}")).at(self.offset)
    }

    /// Returns the item as a text string; `what` names it in the error message.
    pub fn text(&self, what: &str) -> Result<&'a str> {
        let text = Decoder::new(self.bytes).str();
        text.map_err(|_| self.wrong(what, "a text"))
    }

    /// Returns the item as an unsigned number.
    pub fn unsigned(&self, what: &str) -> Result<u64> {
        let number = Decoder::new(self.bytes).u64();
        number.map_err(|_| self.wrong(what, "a whole number from 0 on"))
    }

    /// Returns the item as an array of unsigned numbers.
    pub(crate) fn unsigned_array(&self, what: &str) -> Result<Vec<u64>> {
        self.array(what)?.map(|item| item.unsigned(what)).collect()
    }

    /// Returns the item as a shape. If the shape has too many dimensions, it is
    /// truncated to one more than allowed.
    pub fn shape(&self, what: &str) -> Result<Vec<u64>> {
        let dimensions = self.array(what)?.map(|item| item.unsigned(what));
        dimensions.take(DIMENSIONS + 1).collect()
    }

    /// Returns the items of the array, or an error if this is not an array.
    pub fn array(&self, what: &str) -> Result<impl Iterator<Item = Item<'a>> + use<'a>> {
        let mut decoder = Decoder::new(self.bytes);
        match decoder.array() {
            Ok(left) => Ok(Items::new(decoder, left, self.offset)),
            Err(_) => Err(self.wrong(what, "an array")),
        }
    }

    /// Returns the entries of the map. All keys must be text strings.
    pub fn map(&self, what: &'a str) -> Result<Entries<'a>> {
        let mut decoder = Decoder::new(self.bytes);
        let Ok(left) = decoder.map() else {
            return Err(self.wrong(what, "a map"));
        };
        let left = left.map(|entries| entries.saturating_mul(2));
        Ok(Entries {
            items: Items::new(decoder, left, self.offset),
            what,
        })
    }
}

/// An iterator over the entries of a checked map.
pub struct Entries<'a> {
    items: Items<'a>,
    what: &'a str,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a str, Item<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = (self.items.next()?, self.items.next()?);
        Some(match key.text(self.what) {
            Ok(key) => Ok((key, value)),
            Err(_) => Err(key.wrong(self.what, "a map whose keys are texts")),
        })
    }
}

/// An iterator over the items of a checked array or map.
struct Items<'a> {
    decoder: Decoder<'a>,
    /// The number of items left, or `None` if a break ends them.
    left: Option<u64>,
    offset: u64,
}

impl<'a> Items<'a> {
    fn new(decoder: Decoder<'a>, left: Option<u64>, offset: u64) -> Self {
        Self {
            decoder,
            left,
            offset,
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        match &mut self.left {
            Some(left) => *left = left.checked_sub(1)?,
            None if self.decoder.datatype().ok()? == Type::Break => return None,
            None => {}
        }
        let start = self.decoder.position();
        self.decoder.skip().ok()?;
        Some(Item {
            bytes: &self.decoder.input()[start..self.decoder.position()],
            offset: self.offset + start as u64,
        })
    }
}

/// The reason why bytes are refused.
struct Fault(pub &'static str);

impl From<Undecodable> for Fault {
    /// Replaces the message of the library, which would add several KB to the
    /// WebAssembly module and is less helpful than the position of the error.
    fn from(_: Undecodable) -> Self {
        Self("they are damaged or cut off here")
    }
}

/// A walk over data items that visits every byte once.
struct Walk<'a> {
    decoder: Decoder<'a>,
    is_deterministic: bool,
}

impl<'a> Walk<'a> {
    pub fn new(bytes: &'a [u8], style: Style) -> Self {
        Self {
            decoder: Decoder::new(bytes),
            is_deterministic: style.is_deterministic,
        }
    }

    /// Returns the number of bytes visited so far.
    pub fn position(&self) -> usize {
        self.decoder.position()
    }

    /// Visits one item of at most `depth` nested levels.
    pub fn item(&mut self, depth: u32) -> Result<(), Fault> {
        let Some(inside) = depth.checked_sub(1) else {
            return Err(Fault("the nesting is too deep"));
        };
        let start = self.decoder.position();
        match self.decoder.datatype()? {
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
                let number = self.decoder.u64()?;
                self.head(start, number, 0)
            }
            Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
                let number = -1 - i128::from(self.decoder.int()?);
                self.head(start, u64::try_from(number).unwrap_or(u64::MAX), 0)
            }
            Type::Bytes => {
                let len = self.decoder.bytes()?.len();
                self.head(start, len as u64, len)
            }
            Type::String => {
                let len = self.decoder.str()?.len();
                self.head(start, len as u64, len)
            }
            Type::BytesIndef => {
                self.not_deterministic("a string is of indefinite length")?;
                self.decoder
                    .bytes_iter()?
                    .try_for_each(|part| part.map(drop))?;
                Ok(())
            }
            Type::StringIndef => {
                self.not_deterministic("a string is of indefinite length")?;
                self.decoder
                    .str_iter()?
                    .try_for_each(|part| part.map(drop))?;
                Ok(())
            }
            Type::Array | Type::ArrayIndef => {
                let count = self.decoder.array()?;
                self.count(start, count)?;
                self.each(count, |walk| walk.item(inside))
            }
            Type::Map | Type::MapIndef => {
                let count = self.decoder.map()?;
                self.count(start, count)?;
                self.map(count, inside)
            }
            Type::Tag => {
                self.not_deterministic("a tag is not allowed")?;
                self.decoder.tag()?;
                self.item(inside)
            }
            Type::F32 => {
                let value = self.decoder.f32()?;
                if f16::from_f32(value).to_f32().to_bits() == value.to_bits() {
                    self.not_deterministic("a number is longer than it needs to be")?;
                }
                Ok(())
            }
            Type::F64 => {
                let value = self.decoder.f64()?;
                #[allow(clippy::cast_possible_truncation)] // the comparison detects truncation
                let shorter = value as f32;
                if f64::from(shorter).to_bits() == value.to_bits() {
                    self.not_deterministic("a number is longer than it needs to be")?;
                }
                Ok(())
            }
            Type::Bool | Type::Null | Type::Undefined | Type::Simple | Type::F16 => {
                Ok(self.decoder.skip()?)
            }
            Type::Break | Type::Unknown(_) => Err(Fault("no data item begins here")),
        }
    }

    fn not_deterministic(&self, why: &'static str) -> Result<(), Fault> {
        if self.is_deterministic {
            return Err(Fault(why));
        }
        Ok(())
    }

    /// Checks that the head which was read since `start` is as short as
    /// possible. It contains `number`, and `after` further bytes have been read
    /// after it.
    fn head(&self, start: usize, number: u64, after: usize) -> Result<(), Fault> {
        let shortest = match number {
            0..24 => 1,
            24..0x100 => 2,
            0x100..0x1_0000 => 3,
            0x1_0000..0x1_0000_0000 => 5,
            _ => 9,
        };
        if self.decoder.position() - start - after == shortest {
            return Ok(());
        }
        self.not_deterministic("a number is longer than it needs to be")
    }

    fn count(&self, start: usize, count: Option<u64>) -> Result<(), Fault> {
        match count {
            Some(count) => self.head(start, count, 0),
            None => self.not_deterministic("a length is indefinite"),
        }
    }

    /// Calls `step` `count` times, or until the break. Every step reads at
    /// least one byte, so a forged count soon reaches the end of the input.
    fn each(
        &mut self,
        count: Option<u64>,
        mut step: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match count {
            Some(count) => (0..count).try_for_each(|_| step(self)),
            None => {
                while self.decoder.datatype()? != Type::Break {
                    step(self)?;
                }
                self.decoder.set_position(self.decoder.position() + 1);
                Ok(())
            }
        }
    }

    fn map(&mut self, count: Option<u64>, depth: u32) -> Result<(), Fault> {
        let mut names: BTreeSet<&'a str> = BTreeSet::new();
        let mut before: &[u8] = &[];
        self.each(count, |walk| {
            let start = walk.decoder.position();
            match walk.decoder.datatype()? {
                Type::String if !names.insert(walk.decoder.probe().str()?) => {
                    return Err(Fault("a map has the same key twice"));
                }
                Type::StringIndef => return Err(Fault("a key is of indefinite length")),
                _ => {}
            }
            walk.item(depth)?;
            let key = &walk.decoder.input()[start..walk.decoder.position()];
            if key <= before {
                walk.not_deterministic("the keys of a map are not in order")?;
            }
            before = key;
            walk.item(depth)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, *};
    use crate::Rule;

    fn accepts(bytes: &[u8], is_deterministic: bool) -> bool {
        let style = Style {
            depth: 4,
            is_deterministic,
        };
        match Item::check(bytes, 0, style) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.rule(), Some(Rule::ZTensorCbor), "{error}");
                false
            }
        }
    }

    #[test]
    fn deterministic_encoding_is_one_of_several() {
        for bytes in [
            &b"\x00"[..],
            b"\x18\x18",
            b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xf9\x38\x00",
            b"\xfa\x3d\xcc\xcc\xcd",
            b"\xfb\x40\x09\x21\xfb\x54\x44\x2d\x18",
            b"\xa2\x61a\x00\x62aa\xf6",
            b"\x82\xf4\x42\x00\x01",
        ] {
            assert!(accepts(bytes, true), "{bytes:02x?}");
        }
        for bytes in [
            &b"\x18\x17"[..],                        // 23 in two bytes
            b"\x38\x00",                             // -1 in two bytes
            b"\xfa\x3f\x00\x00\x00",                 // 0.5 as single
            b"\xfb\x3f\xe0\x00\x00\x00\x00\x00\x00", // 0.5 as double
            b"\x9f\xff",                             // indefinite lengths
            b"\xbf\xff",
            b"\x7f\x61a\xff",
            b"\xc0\x00",                // a tag
            b"\xa2\x62aa\x00\x61a\x00", // keys out of order
            b"\x78\x01a",               // a long head of a text
        ] {
            assert!(accepts(bytes, false), "{bytes:02x?}");
            assert!(!accepts(bytes, true), "{bytes:02x?}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for bytes in [
            &b""[..],
            b"\xff",
            b"\x1c",
            b"\x61\xff",                                 // no UTF-8
            b"\x9f\x00",                                 // no break
            b"\xbf\x61a\xff",                            // a key without a value
            b"\x00\x00",                                 // something after
            b"\xa2\x61a\x00\x61a\x01",                   // a key twice
            b"\xa1\x7f\x61a\xff\x00",                    // a key in pieces
            b"\x81\x81\x81\x81\x00",                     // five levels
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x00", // a count beyond the end
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00",
        ] {
            assert!(!accepts(bytes, false), "{bytes:02x?}");
        }
    }
}
