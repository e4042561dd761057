//! The JSON of headers (docs/formats/z4ai-containers.md 1): parsing in the
//! dialect of the official reader (section 1.3), and writing in the spelling of
//! the official writer.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{
    Deserialize, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{HeaderTensor, PREFIX_BYTES, check_tensor};
use crate::dtype::Dtype;
use crate::limits::{DIMENSIONS, HEADER_LEN_BYTES};
use crate::{Error, Result, Rule, sort};

/// The entry of a tensor: an object or, as the official reader's derived
/// deserializer allows, an array of the fields in this order.
#[derive(Debug, serde::Deserialize)]
pub struct Entry {
    pub dtype: WrittenDtype,
    pub shape: Shape,
    pub data_offsets: (u64, u64),
}

/// A dtype as spelled in the header: its name or, as the derived deserializer
/// allows, an object that maps its name to `null`.
#[derive(Debug)]
pub enum WrittenDtype {
    Known(Dtype),
    /// The first characters of a name that is not in the list of dtypes.
    Unknown(String),
}

/// The number of characters of an unknown name that an error message repeats.
const UNKNOWN_DTYPE_CHARS: usize = 40;

impl From<&str> for WrittenDtype {
    fn from(name: &str) -> Self {
        match Dtype::ALL.into_iter().find(|dtype| dtype.name() == name) {
            Some(dtype) => Self::Known(dtype),
            None => Self::Unknown(name.chars().take(UNKNOWN_DTYPE_CHARS).collect()),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenDtype {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = WrittenDtype;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a dtype")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<WrittenDtype, A::Error> {
                let (name, rest) = data.variant::<String>()?;
                rest.unit_variant()?;
                Ok(name.as_str().into())
            }
        }

        deserializer.deserialize_enum("Dtype", &[], Written)
    }
}

/// A shape. It stores only the dimensions necessary to report an excess of dimensions,
/// since a header has room for 45 million.
#[derive(Debug)]
pub struct Shape {
    /// The first dimensions, at most one more than [`DIMENSIONS`].
    pub dimensions: Vec<u64>,
    /// The product of all dimensions, or `None` if it exceeds 64 bits. It is
    /// computed from left to right, as in the official reader, so that a
    /// leading zero prevents an overflow by later dimensions.
    pub elements: Option<u64>,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dimensions;

        impl<'de> Visitor<'de> for Dimensions {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
                let mut dimensions = Vec::new();
                let mut elements = Some(1u64);
                while let Some(dimension) = seq.next_element::<u64>()? {
                    elements = elements.and_then(|product| product.checked_mul(dimension));
                    if dimensions.len() <= DIMENSIONS {
                        dimensions.push(dimension);
                    }
                }
                Ok(Shape {
                    dimensions,
                    elements,
                })
            }
        }

        deserializer.deserialize_seq(Dimensions)
    }
}

/// The content of a header, before it is checked.
#[derive(Debug)]
pub struct Document {
    pub metadata: BTreeMap<String, String>,
    /// The entries in the order in which their names first appear. For a
    /// repeated name, this is its last entry.
    pub entries: Vec<(String, Entry)>,
    /// One of the names that have several entries, if there are any.
    pub repeated: Option<String>,
}

pub fn parse(json: &[u8]) -> Result<Document> {
    if let Err(error) = core::str::from_utf8(json) {
        return Err(
            Error::malformed(Rule::SafetensorsUtf8, "the header is not UTF-8 text")
                .at(8 + error.valid_up_to() as u64),
        );
    }
    // The derived deserializer below skips unknown fields without looking
    // inside. The official reader parses them, with a limit on nesting. Two
    // passes reproduce both behaviours.
    let malformed = |error: serde_json::Error| {
        Error::malformed(
            Rule::SafetensorsJson,
            format!("the header is not valid safetensors: {error}"),
        )
    };
    serde_json::from_slice::<Any>(json).map_err(malformed)?;
    serde_json::from_slice(json).map_err(malformed)
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Top;

        impl<'de> Visitor<'de> for Top {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut metadata: Option<Option<BTreeMap<String, String>>> = None;
                let mut entries: Vec<(String, Entry)> = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "__metadata__" {
                        if metadata.replace(map.next_value()?).is_some() {
                            return Err(A::Error::duplicate_field("__metadata__"));
                        }
                        continue;
                    }
                    entries.push((key, map.next_value()?));
                }
                let (entries, repeated) = distinct(entries);
                Ok(Document {
                    metadata: metadata.flatten().unwrap_or_default(),
                    entries,
                    repeated,
                })
            }
        }

        deserializer.deserialize_map(Top)
    }
}

/// Removes duplicate names: the last entry of a name replaces the first one in
/// its position. Also returns one of the duplicate names.
fn distinct(entries: Vec<(String, Entry)>) -> (Vec<(String, Entry)>, Option<String>) {
    let mut kept: Vec<usize> = Vec::with_capacity(entries.len());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut repeated = None;
    for (number, (name, _)) in entries.iter().enumerate() {
        match places.get(name.as_str()) {
            Some(&place) => {
                kept[place] = number;
                repeated = Some(name.clone());
            }
            None => {
                places.insert(name, kept.len());
                kept.push(number);
            }
        }
    }
    if repeated.is_none() {
        return (entries, None);
    }
    (sort::picked(entries, kept), repeated)
}

/// A JSON value that is parsed completely and discarded.
struct Any;

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(Self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(Self)
    }
}

/// Returns the first bytes of a file: the length of the header, and the header
/// with padding, so that the data begin at a multiple of eight. `tensors` must
/// be in data order, without gaps between their spans. The `metadata` come
/// first, unless they are empty.
///
/// # Errors
/// Tensors that the format cannot store, because their elements do not fill
/// whole bytes or because they are called `__metadata__`, and a header over the
/// cap.
pub fn head(metadata: &BTreeMap<String, String>, tensors: &[HeaderTensor]) -> Result<Vec<u8>> {
    head_of((!metadata.is_empty()).then_some(metadata), tensors)
}

/// Returns the first bytes of a file like [`head`]. With `Some`, even empty
/// metadata become an entry of the header, as the official package writes it.
pub fn head_of(
    metadata: Option<&BTreeMap<String, String>>,
    tensors: &[HeaderTensor],
) -> Result<Vec<u8>> {
    let mut head = Vec::from([0; 8]);
    head.push(b'{');
    let mut separator = "";
    if let Some(metadata) = metadata {
        let pairs = metadata
            .iter()
            .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
        let entry = format!("\"__metadata__\":{{{}}}", joined(pairs));
        head.extend_from_slice(entry.as_bytes());
        separator = ",";
    }
    let mut end = 0;
    for tensor in tensors {
        if tensor.name == "__metadata__" {
            return Err(Error::unsupported(
                "a safetensors file cannot have a tensor of this name: rename it",
            )
            .tensor(&tensor.name));
        }
        let mut dimensions = tensor.shape.iter();
        let elements =
            dimensions.try_fold(1u64, |product, &dimension| product.checked_mul(dimension));
        check_tensor(tensor, elements, end).map_err(|error| error.tensor(&tensor.name))?;
        end = tensor.span.end;
        let entry = format!(
            "{separator}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{end}]}}",
            quoted(&tensor.name),
            tensor.dtype,
            joined(tensor.shape.iter().map(u64::to_string)),
            tensor.span.start,
        );
        head.extend_from_slice(entry.as_bytes());
        separator = ",";
    }
    head.push(b'}');
    head.resize(head.len().next_multiple_of(8), b' ');
    let len_bytes = head.len() as u64 - PREFIX_BYTES;
    if len_bytes > HEADER_LEN_BYTES {
        return Err(Error::limit(format!(
            "the header would have {len_bytes} bytes, over the cap of {HEADER_LEN_BYTES} of \
             safetensors: write a sharded checkpoint"
        )));
    }
    head[..8].copy_from_slice(&len_bytes.to_le_bytes());
    Ok(head)
}

/// Returns a string as JSON. Serializing a [`serde_json::Value`] instead would
/// link the code for all kinds of values, including sorting and floating-point
/// numbers, into the WebAssembly module for readers.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text in memory can be written")
}

/// Joins the items with commas.
fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::Rule;
    use crate::container::safetensors::Header;
    use crate::dtype::Dtype;

    fn tensor(
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        span: core::ops::Range<u64>,
    ) -> HeaderTensor {
        HeaderTensor {
            name: name.into(),
            dtype,
            shape: shape.into(),
            span,
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let metadata = BTreeMap::from([("for\"mat".to_string(), "p\nt".to_string())]);
        let tensors = vec![
            tensor("b \"quoted\" \u{1F980}", Dtype::F32, &[2, 3], 0..24),
            tensor("empty", Dtype::I64, &[0, 7], 24..24),
            tensor("", Dtype::F4, &[4], 24..26),
            tensor("scalar", Dtype::C64, &[], 26..34),
        ];
        let head = head(&metadata, &tensors).unwrap();
        assert_eq!(head.len() % 8, 0);
        assert_eq!(head[..8], (head.len() as u64 - 8).to_le_bytes());
        let header = Header::parse(&head[8..], 34).unwrap();
        assert_eq!(header, Header { tensors, metadata });
        let bare = super::head(&BTreeMap::new(), &[]).unwrap();
        assert_eq!(bare, b"\x08\0\0\0\0\0\0\0{}      ");
    }

    #[test]
    fn what_no_file_can_hold() {
        let write = |tensor| head(&BTreeMap::new(), &[tensor]).unwrap_err();
        let odd = write(tensor("odd", Dtype::F4, &[3], 0..2));
        assert_eq!(
            (odd.rule(), odd.tensor_name()),
            (Some(Rule::SafetensorsSubByte), Some("odd"))
        );
        let huge = write(tensor("w", Dtype::U8, &[1 << 40, 1 << 40, 0], 0..0));
        assert_eq!(huge.rule(), Some(Rule::SafetensorsOverflow));
        let name = write(tensor("__metadata__", Dtype::U8, &[1], 0..1));
        assert_eq!(name.tensor_name(), Some("__metadata__"));
    }
}
