//! CBOR that has been checked once, and then read without surprises
//! (docs/formats/ztensor.md 3.1, 6.2 step 4, 8.2).

use alloc::format;
use alloc::vec::Vec;

use minicbor::Decoder;
use minicbor::data::Type;

use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};
use walk::{Fault, Walk};

mod walk;

/// The rules of a version for its manifest.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Levels of nesting allowed.
    pub depth: u32,
    /// The deterministic encoding of RFC 8949 section 4.2.1, without tags.
    pub is_deterministic: bool,
}

/// One data item, well formed.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Item<'a> {
    /// Checks that `bytes`, which begin at `offset` of the file, are exactly
    /// one item, well formed and without repeated text keys.
    pub fn check(bytes: &'a [u8], offset: u64, style: Style) -> Result<Self> {
        let mut walk = Walk::new(bytes, style);
        let why = match walk.item(style.depth) {
            Err(Fault(why)) => why,
            Ok(()) if walk.position() == bytes.len() => return Ok(Self { bytes, offset }),
            Ok(()) => "bytes are left over after the data",
        };
        let detail = format!("the CBOR metadata are not in order: {why}");
        Err(Error::malformed(Rule::ZTensorCbor, detail).at(offset + walk.position() as u64))
    }

    /// Returns the bytes of the item.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns where the item begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn wrong(&self, what: &str, kind: &str) -> Error {
        Error::malformed(Rule::ZTensorField, format!("`{what}` must be {kind}")).at(self.offset)
    }

    /// Returns the text it is; `what` names it in the error.
    pub fn text(&self, what: &str) -> Result<&'a str> {
        let text = Decoder::new(self.bytes).str();
        text.map_err(|_| self.wrong(what, "a text"))
    }

    /// Returns the number it is.
    pub fn unsigned(&self, what: &str) -> Result<u64> {
        let number = Decoder::new(self.bytes).u64();
        number.map_err(|_| self.wrong(what, "a whole number from 0 on"))
    }

    /// Returns the numbers it holds.
    pub fn unsigned_array(&self, what: &str) -> Result<Vec<u64>> {
        self.array(what)?.map(|item| item.unsigned(what)).collect()
    }

    /// Returns the shape it holds; of one that is too long, no more than shows
    /// it.
    pub fn shape(&self, what: &str) -> Result<Vec<u64>> {
        let dimensions = self.array(what)?.map(|item| item.unsigned(what));
        dimensions.take(DIMENSIONS + 1).collect()
    }

    /// Returns the items it holds.
    pub fn array(&self, what: &str) -> Result<impl Iterator<Item = Item<'a>> + use<'a>> {
        let mut decoder = Decoder::new(self.bytes);
        match decoder.array() {
            Ok(left) => Ok(Items::new(decoder, left, self.offset)),
            Err(_) => Err(self.wrong(what, "an array")),
        }
    }

    /// Returns the entries it holds; all keys have to be texts.
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

/// The entries of a map that has been checked.
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

/// The items of an array or map that has been checked.
struct Items<'a> {
    decoder: Decoder<'a>,
    /// `None` where a break ends them.
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
