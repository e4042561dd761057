//! Attributes of groups, as text (docs/formats/hdf5.md 7).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::datatype::{Dataspace, Element, ValueType, fields};
use super::file::{Fields, File, number, refuse};
use super::fractal_heap::FractalHeap;
use super::header::{Header, kind};
use super::record_tree::{Records, record};
use crate::container::foreign::random_access::{Read, Stop};
use crate::container::foreign::shape::element_count;
use crate::dtype::Dtype;
use crate::limits::{JOINED_NAMES_LEN_BYTES, TEXT_LEN_BYTES};
use crate::{Result, Rule, bytes};

/// The greatest number of values of an attribute that are shown.
const SHOWN_VALUES: u64 = 64;

/// The texts of varying length that several attributes refer to, by the offset of
/// the heap that contains them.
type Heaps<'a> = BTreeMap<u64, Cow<'a, [u8]>>;

/// The attributes of groups.
#[derive(Default)]
pub(super) struct Attributes<'a> {
    heaps: Heaps<'a>,
    /// The values by name, after the path of the group and `@`.
    pub texts: BTreeMap<String, String>,
    len_bytes: usize,
}

impl<'a> Attributes<'a> {
    /// Adds the attributes of the group at `path`. Those that cannot be read are left
    /// out, and all after the first [`JOINED_NAMES_LEN_BYTES`].
    pub fn add(&mut self, file: &mut File<'_, 'a>, path: &str, header: &Header) {
        for message in &header.messages {
            if message.kind == kind::ATTRIBUTE && !message.is_shared {
                let fields = fields(message, file.sizes, Rule::Hdf5Header);
                self.add_one(file, path, fields);
            }
        }
        if let Some(message) = header.find(kind::ATTRIBUTE_INFO) {
            let fields = fields(message, file.sizes, Rule::Hdf5Header);
            // Missing bytes have been noted.
            self.add_from_heap(file, path, fields).unwrap_or_default();
        }
    }

    /// Adds the attributes that are in a heap instead of the header.
    fn add_from_heap(
        &mut self,
        file: &mut File<'_, 'a>,
        path: &str,
        mut message: Fields,
    ) -> Read<()> {
        message.take(1)?;
        let flags = message.u8()?;
        message.take(if flags & 1 != 0 { 2 } else { 0 })?;
        let heap = file.offset(message.address()?);
        let tree = file.offset(message.address()?);
        let (Some(heap), Some(tree)) = (heap, tree) else {
            return Ok(());
        };
        let mut heap = FractalHeap::read(file, heap, Rule::Hdf5Header)?;
        let kinds = [record::ATTRIBUTE_BY_NAME];
        let records = Records::read(file, tree, &kinds, Rule::Hdf5Header)?;
        for record in records.iter() {
            let mut fields = file.fields(record, tree, Rule::Hdf5Header);
            let id = fields.take(heap.id_bytes)?;
            let is_shared = fields.u8()? & 2 != 0;
            match heap.object(file, id) {
                Ok((content, at)) if !is_shared => {
                    let fields = file.fields(&content, at, Rule::Hdf5Header);
                    self.add_one(file, path, fields);
                }
                // All missing bytes are requested at once.
                Ok(_) | Err(Stop::Missing) => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    fn add_one(&mut self, file: &mut File<'_, 'a>, path: &str, message: Fields) {
        if self.len_bytes > JOINED_NAMES_LEN_BYTES {
            return;
        }
        if let Ok(Some((name, text))) = shown(file, &mut self.heaps, message) {
            let key = match path {
                "" => name,
                path => format!("{path}@{name}"),
            };
            self.len_bytes = self.len_bytes.saturating_add(key.len() + text.len());
            self.texts.insert(key, text);
        }
    }
}

/// Returns the name and the value of an attribute; `None` if its type is not
/// shown.
fn shown<'a>(
    file: &mut File<'_, 'a>,
    heaps: &mut Heaps<'a>,
    message: Fields,
) -> Read<Option<(String, String)>> {
    let Ok(parts) = Parts::parse(message) else {
        return Ok(None);
    };
    let Parts {
        name,
        value,
        space,
        data,
    } = parts;
    let count = if space.is_null {
        Some(0)
    } else {
        element_count(&space.shape)
    };
    let Some(count) = count else {
        return Ok(None);
    };
    let width = match value {
        ValueType::Element(element) => element.len_bytes,
        ValueType::Text(len_bytes) => len_bytes,
        ValueType::HeapText => 4 + file.sizes.address + 4,
    };
    let values = data.chunks_exact(bytes::index(width.max(1)));
    let mut texts = Vec::new();
    for stored in values.take(bytes::index(count.min(SHOWN_VALUES))) {
        let text = match value {
            ValueType::Element(element) => number_text(element, stored)?,
            ValueType::Text(_) => text_of(stored),
            ValueType::HeapText => heap_text(file, heaps, stored)?,
        };
        texts.push(text);
    }
    let text = match (&texts[..], space.shape.is_empty()) {
        ([one], true) => one.clone(),
        _ if count > SHOWN_VALUES => format!("[{}, … ({count} values)]", texts.join(", ")),
        _ => format!("[{}]", texts.join(", ")),
    };
    Ok(Some((text_of(name), text)))
}

/// The parts of the message of an attribute.
struct Parts<'b> {
    name: &'b [u8],
    value: ValueType,
    space: Dataspace,
    data: &'b [u8],
}

impl<'b> Parts<'b> {
    fn parse(mut fields: Fields<'b>) -> Result<Self> {
        let at = fields.at;
        let version = fields.u8()?;
        let flags = fields.u8()?;
        let lens = [fields.number(2)?, fields.number(2)?, fields.number(2)?];
        if version == 3 {
            fields.take(1)?;
        }
        if flags & 3 != 0 || !(1..=3).contains(&version) {
            let detail = "an attribute has a type in another object";
            return Err(refuse(Rule::Hdf5Header, detail, at));
        }
        let mut parts = [fields.clone(), fields.clone(), fields.clone()];
        for (part, len) in parts.iter_mut().zip(lens) {
            part.at = fields.at;
            part.bytes = fields.take(len)?;
            if version == 1 {
                fields.take(len.next_multiple_of(8) - len)?;
            }
        }
        let [name, value, space] = parts;
        Ok(Self {
            name: name.bytes,
            value: ValueType::parse(value)?,
            space: Dataspace::parse(space)?,
            data: fields.bytes,
        })
    }
}

/// Returns a text without the zeros that fill it.
fn text_of(stored: &[u8]) -> String {
    let end = stored.iter().position(|byte| *byte == 0);
    let text = &stored[..end.unwrap_or(stored.len())];
    let text = text.get(..bytes::index(TEXT_LEN_BYTES)).unwrap_or(text);
    String::from_utf8_lossy(text).into_owned()
}

fn number_text(element: Element, stored: &[u8]) -> Result<String> {
    let stored = element.coding.decode(stored)?;
    let bits = number(&stored);
    let unused = 64 - (8 * stored.len() as u64).clamp(1, 64);
    let signed = (bits << unused).cast_signed() >> unused;
    Ok(match element.dtype {
        Dtype::Bool => (bits != 0).to_string(),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => signed.to_string(),
        Dtype::F64 => f64::from_bits(bits).to_string(),
        Dtype::F32 => f32::from_bits(u32::try_from(bits).unwrap_or_default()).to_string(),
        Dtype::F16 | Dtype::Bf16 => half_text(element.dtype, bits),
        Dtype::C64 => "(complex)".into(),
        _ => bits.to_string(),
    })
}

fn half_text(dtype: Dtype, bits: u64) -> String {
    let bits = u16::try_from(bits).unwrap_or_default();
    match dtype {
        Dtype::F16 => half::f16::from_bits(bits).to_f32().to_string(),
        _ => half::bf16::from_bits(bits).to_f32().to_string(),
    }
}

/// Reads a text of a global heap: its length, the address of the heap and the
/// number of the text there.
fn heap_text<'a>(file: &mut File<'_, 'a>, heaps: &mut Heaps<'a>, stored: &[u8]) -> Read<String> {
    let mut fields = Fields {
        bytes: stored,
        at: 0,
        sizes: file.sizes,
        rule: Rule::Hdf5Header,
    };
    let len_bytes = fields.number(4)?;
    let Some(heap) = file.offset(fields.address()?) else {
        return Ok(String::new());
    };
    let wanted = fields.number(4)?;
    let all = match heaps.entry(heap) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => {
            file.expect(heap, b"GCOL", Rule::Hdf5Header)?;
            let len = file.length(heap + 8)?;
            unknown.insert(file.bytes(heap, len)?)
        }
    };
    let length = file.sizes.length;
    let mut rest = all.get(bytes::index(8 + length)..).unwrap_or_default();
    // An object is its number, a count of references, four bytes, its length, and its
    // bytes, padded to a multiple of 8.
    while let Some((head, content)) = rest.split_at_checked(bytes::index(8 + length)) {
        let found = number(&head[..2]);
        let len = number(&head[8..]);
        if found == 0 || len > content.len() as u64 {
            break;
        }
        if found == wanted {
            let len = bytes::index(len.min(len_bytes));
            return Ok(text_of(&content[..len]));
        }
        let padded = usize::try_from(len.next_multiple_of(8)).unwrap_or(usize::MAX);
        rest = content.get(padded..).unwrap_or_default();
    }
    Ok(String::new())
}
