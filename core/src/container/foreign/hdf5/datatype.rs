//! Types of elements and shapes (docs/formats/hdf5.md 4).

use alloc::format;
use alloc::vec::Vec;

use super::file::{Fields, Sizes, refuse};
use super::header::Message;
use crate::container::foreign::ElementCoding;
use crate::dtype::Dtype;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};

/// The type of elements that have a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub dtype: Dtype,
    pub coding: ElementCoding,
    pub len_bytes: u64,
}

/// The type of the values of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Element(Element),
    /// Texts of this many bytes each.
    Text(u64),
    /// Texts in a global heap.
    HeapText,
}

/// The shape of a dataset or an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dataspace {
    pub shape: Vec<u64>,
    /// The greatest sizes, which are those of the shape if they are not stated, and
    /// `u64::MAX` for a dimension without one.
    pub greatest: Vec<u64>,
    /// True if there are no elements at all.
    pub is_null: bool,
}

/// Returns the fields of a message.
pub(super) fn fields(message: &Message, sizes: Sizes, rule: Rule) -> Fields<'_> {
    Fields {
        bytes: &message.content,
        at: message.at,
        sizes,
        rule,
    }
}

impl Dataspace {
    pub fn parse(mut fields: Fields) -> Result<Self> {
        let at = fields.at;
        let length_bytes = fields.sizes.length;
        let version = fields.u8()?;
        let rank = fields.u8()?;
        let flags = fields.u8()?;
        let kind = match version {
            1 => {
                fields.take(5)?;
                1
            }
            2 => fields.u8()?,
            _ => {
                let detail = format!("version {version} of a shape is unknown");
                return Err(refuse(Rule::Hdf5Shape, detail, at));
            }
        };
        if usize::from(rank) > DIMENSIONS {
            return Err(Error::dimensions().at(at));
        }
        let mut sizes = || {
            (0..rank)
                .map(|_| fields.length())
                .collect::<Result<Vec<u64>>>()
        };
        let shape = sizes()?;
        let greatest = match flags & 1 {
            0 => shape.clone(),
            _ => sizes()?,
        };
        let unlimited = u64::MAX >> (64 - 8 * length_bytes);
        let greatest = greatest.into_iter();
        let greatest = greatest.map(|size| if size == unlimited { u64::MAX } else { size });
        Ok(Self {
            shape,
            greatest: greatest.collect(),
            is_null: kind == 2,
        })
    }
}

/// The first bytes of a datatype: its class, version, bits and element length.
struct Head {
    class: u8,
    version: u8,
    bits: [u8; 3],
    len_bytes: u64,
    at: u64,
}

impl Head {
    fn parse(fields: &mut Fields) -> Result<Self> {
        let at = fields.at;
        let first = fields.u8()?;
        let bits = [fields.u8()?, fields.u8()?, fields.u8()?];
        let len_bytes = fields.number(4)?;
        if len_bytes == 0 {
            return Err(refuse(Rule::Hdf5Type, "its elements have 0 bytes", at));
        }
        Ok(Self {
            class: first & 15,
            version: first >> 4,
            bits,
            len_bytes,
            at,
        })
    }

    fn unknown(&self) -> Error {
        let name = match self.class {
            0 => "integers with padding",
            1 => "floats of another layout",
            2 => "times",
            3 => "texts",
            4 => "bit fields",
            5 => "opaque bytes",
            6 => "structures",
            7 => "references",
            8 => "enumerations",
            9 => "lists or texts of varying length",
            10 => "arrays",
            _ => "of an unknown class",
        };
        let detail = format!("its elements are {name}, which are not read");
        refuse(Rule::Hdf5Type, detail, self.at)
    }

    /// Returns the element of a dtype, with this byte order.
    fn element(&self, dtype: Dtype, is_big_endian: bool) -> Element {
        let width = match dtype {
            // Each half of a complex number is swapped by itself.
            Dtype::C64 => 4,
            _ => self.len_bytes,
        };
        Element {
            dtype,
            coding: match is_big_endian && width > 1 {
                true => ElementCoding::Swapped(width),
                false => ElementCoding::Plain,
            },
            len_bytes: self.len_bytes,
        }
    }
}

impl Element {
    /// Parses the datatype of a dataset.
    ///
    /// # Errors
    /// [`Rule::Hdf5Type`] for elements that have no dtype.
    pub fn parse(mut fields: Fields) -> Result<Self> {
        Self::read(&mut fields, 0)
    }

    fn read(fields: &mut Fields, depth: usize) -> Result<Self> {
        let head = Head::parse(fields)?;
        let found = match head.class {
            0 => integer(&head, fields)?,
            1 => float(&head, fields)?,
            6 if depth == 0 => complex(&head, fields)?,
            8 if depth == 0 => truth_value(&head, fields)?,
            _ => None,
        };
        found.ok_or_else(|| head.unknown())
    }
}

fn integer(head: &Head, fields: &mut Fields) -> Result<Option<Element>> {
    let offset = fields.number(2)?;
    let precision = fields.number(2)?;
    let dtype = match (head.len_bytes, head.bits[0] & 8 != 0) {
        (1, true) => Dtype::I8,
        (1, false) => Dtype::U8,
        (2, true) => Dtype::I16,
        (2, false) => Dtype::U16,
        (4, true) => Dtype::I32,
        (4, false) => Dtype::U32,
        (8, true) => Dtype::I64,
        (8, false) => Dtype::U64,
        _ => return Ok(None),
    };
    let is_full = offset == 0 && precision == 8 * head.len_bytes;
    Ok(is_full.then(|| head.element(dtype, head.bits[0] & 1 != 0)))
}

fn float(head: &Head, fields: &mut Fields) -> Result<Option<Element>> {
    let offset = fields.number(2)?;
    let precision = fields.number(2)?;
    let [exponent_at, exponent_bits] = [fields.u8()?, fields.u8()?];
    let [fraction_at, fraction_bits] = [fields.u8()?, fields.u8()?];
    let bias = fields.number(4)?;
    let sign_at = head.bits[1];
    let layout = (
        head.len_bytes,
        sign_at,
        exponent_at,
        exponent_bits,
        fraction_bits,
        bias,
    );
    let dtype = match layout {
        (2, 15, 10, 5, 10, 15) => Dtype::F16,
        (2, 15, 7, 8, 7, 127) => Dtype::Bf16,
        (4, 31, 23, 8, 23, 127) => Dtype::F32,
        (8, 63, 52, 11, 52, 1023) => Dtype::F64,
        _ => return Ok(None),
    };
    // Bits 4 and 5 state that the highest bit of the fraction is not stored, and
    // bit 6 the byte order of VAX.
    let is_usual = offset == 0
        && precision == 8 * head.len_bytes
        && fraction_at == 0
        && head.bits[0] & 0x70 == 0x20;
    Ok(is_usual.then(|| head.element(dtype, head.bits[0] & 1 != 0)))
}

/// Parses an enumeration of FALSE and TRUE in bytes, as which h5py stores truth
/// values.
fn truth_value(head: &Head, fields: &mut Fields) -> Result<Option<Element>> {
    let base = Element::read(fields, 1)?;
    let mut names = Vec::new();
    let count = usize::from(u16::from_le_bytes([head.bits[0], head.bits[1]]));
    if count != 2 || base.len_bytes != 1 {
        return Ok(None);
    }
    for _ in 0..count {
        names.push(name(head.version, fields)?);
    }
    let values = fields.take(2)?;
    let is_bool = names == [&b"FALSE"[..], b"TRUE"] && values == [0, 1];
    Ok(is_bool.then(|| head.element(Dtype::Bool, false)))
}

/// Parses a structure of two floats `r` and `i`, as which h5py stores complex
/// numbers.
fn complex(head: &Head, fields: &mut Fields) -> Result<Option<Element>> {
    let count = u16::from_le_bytes([head.bits[0], head.bits[1]]);
    if count != 2 || head.len_bytes != 8 {
        return Ok(None);
    }
    let mut is_big_endian = None;
    for (expected_name, expected_at) in [(b"r", 0), (b"i", 4)] {
        let name = name(head.version, fields)?;
        let offset = match head.version {
            // The length of an offset is that of the largest one.
            3.. => fields.number(1)?,
            _ => fields.number(4)?,
        };
        if head.version == 1 {
            fields.take(28)?;
        }
        let part = Element::read(fields, 1)?;
        let order = part.coding != ElementCoding::Plain;
        let is_same = *is_big_endian.get_or_insert(order) == order;
        if name != expected_name || offset != expected_at || part.dtype != Dtype::F32 || !is_same {
            return Ok(None);
        }
    }
    Ok(Some(head.element(Dtype::C64, is_big_endian == Some(true))))
}

/// Reads the name of a member. Before version 3, names are padded to multiples of
/// 8 bytes.
fn name<'b>(version: u8, fields: &mut Fields<'b>) -> Result<&'b [u8]> {
    let name = fields.text()?;
    if version < 3 {
        let len = name.len() as u64 + 1;
        fields.take(len.next_multiple_of(8) - len)?;
    }
    Ok(name)
}

impl ValueType {
    /// Parses the datatype of an attribute.
    pub fn parse(fields: Fields) -> Result<Self> {
        let mut copy = fields.clone();
        let head = Head::parse(&mut copy)?;
        match (head.class, head.bits[0] & 15) {
            (3, _) => Ok(Self::Text(head.len_bytes)),
            (9, 1) => Ok(Self::HeapText),
            _ => Element::parse(fields).map(Self::Element),
        }
    }
}
