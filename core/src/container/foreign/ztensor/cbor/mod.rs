//! CBOR that is checked as a whole first, so that reading it afterwards finds
//! well-formed items only (docs/formats/ztensor.md 3.1, 6.2 step 4 and 8.2).

use alloc::format;
use alloc::vec::Vec;

use minicbor::Decoder;
use minicbor::data::Type;

use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};
use walk::{Fault, Walk};

mod walk;

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
    pub fn unsigned_array(&self, what: &str) -> Result<Vec<u64>> {
        self.array(what)?.map(|item| item.unsigned(what)).collect()
    }

    /// Returns the item as a shape. If the shape has too many dimensions, it is
    /// truncated to one more than allowed.
    pub fn shape(&self, what: &str) -> Result<Vec<u64>> {
        let dimensions = self.array(what)?.map(|item| item.unsigned(what));
        dimensions.take(DIMENSIONS + 1).collect()
    }

    /// Returns the items of the array.
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
