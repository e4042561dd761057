//! Reads the parts of a virtual header that a safetensors header does not have
//! (docs/formats/zstn-virtual-header.md 2 to 5).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{FILE_KEY, PlacedTensor, StoredType, TYPE_KEY, VIEWS_KEY, block_type};
use crate::container::foreign::gguf::ElementType;
use crate::container::safetensors::Header;
use crate::dtype::Dtype;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};

/// The description of an original.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    /// The format of the original.
    pub kind: String,
    /// Whether every tensor of the original is an entry or a view.
    pub is_complete: bool,
    /// The views, in the order of the list. Their names are distinct, and no entry
    /// has one of them.
    pub views: Vec<PlacedTensor>,
    /// The prefix of entries that are no tensors.
    prefix: String,
    /// The block types of entries, by name.
    types: BTreeMap<String, ElementType>,
}

fn bad(detail: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::malformed(Rule::ZstnVirtualHeader, detail)
}

impl Description {
    /// Reads the description from the header `json`, which has been parsed to
    /// `header`.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] for metadata or block types of another form.
    pub fn parse(json: &[u8], header: &Header) -> Result<Self> {
        let Some(file) = header.metadata.get(FILE_KEY) else {
            return Err(bad(format!(
                "the file restores a file of another format, and its header has no `{FILE_KEY}`"
            )));
        };
        let file: File = serde_json::from_str(file)
            .map_err(|error| bad(format!("`{FILE_KEY}` in the header is malformed: {error}")))?;
        if file.bytes.is_empty() {
            return Err(bad(format!(
                "`bytes` of `{FILE_KEY}` in the header is empty"
            )));
        }
        let views = match header.metadata.get(VIEWS_KEY) {
            None => Vec::new(),
            Some(views) => {
                let views: Vec<View> = serde_json::from_str(views).map_err(|error| {
                    bad(format!("`{VIEWS_KEY}` in the header is malformed: {error}"))
                })?;
                views.into_iter().map(View::placed).collect::<Result<_>>()?
            }
        };
        let entries = header.tensors.iter().map(|entry| entry.name.as_str());
        let mut names: BTreeSet<&str> = entries.collect();
        for view in &views {
            if !names.insert(&view.name) {
                return Err(bad("the header has two tensors of this name").tensor(&view.name));
            }
        }
        let named: BTreeMap<String, String> = serde_json::from_slice::<Types>(json)
            .map_err(|error| bad(format!("the types in the header are malformed: {error}")))?
            .0;
        let mut types = BTreeMap::new();
        for (name, of) in named {
            let Some(element) = block_type(&of) else {
                return Err(bad("the block type of the tensor is unknown").tensor(&name));
            };
            types.insert(name, element);
        }
        Ok(Self {
            kind: file.kind,
            is_complete: file.complete,
            views,
            prefix: file.bytes,
            types,
        })
    }

    /// Returns an entry as a tensor of the original, or `None` if it is none.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] for a block type that does not fit the entry.
    pub fn tensor(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        offset_bytes: u64,
    ) -> Result<Option<PlacedTensor>> {
        if name.starts_with(&self.prefix) {
            return Ok(None);
        }
        let mut shape = shape.to_vec();
        let stored_type = match self.types.get(name) {
            None if dtype.len_bytes().is_none() => {
                return Err(bad("its elements are no whole bytes").tensor(name));
            }
            None => StoredType::Plain(dtype),
            Some(element) => {
                let refuse = || bad("its block type does not fit its shape").tensor(name);
                let row = shape.last_mut().filter(|_| dtype == Dtype::U8);
                let row = row.ok_or_else(refuse)?;
                let whole = row.is_multiple_of(element.block_bytes());
                let values = (*row / element.block_bytes()).checked_mul(element.block_elements());
                *row = values.filter(|_| whole).ok_or_else(refuse)?;
                StoredType::Blocks(*element)
            }
        };
        Ok(Some(PlacedTensor {
            name: name.into(),
            stored_type,
            shape,
            offset_bytes,
            strides: None,
        }))
    }
}

#[derive(Deserialize)]
struct File {
    kind: String,
    bytes: String,
    complete: bool,
}

/// A view, in the order of its fields in the list.
#[derive(Deserialize)]
struct View {
    name: String,
    stored_type: String,
    shape: Vec<u64>,
    offset_bytes: u64,
    #[serde(default)]
    strides: Option<Vec<u64>>,
}

impl View {
    fn placed(self) -> Result<PlacedTensor> {
        let Some(stored_type) = StoredType::from_name(&self.stored_type) else {
            return Err(bad("the type of the view is unknown").tensor(&self.name));
        };
        if self.shape.len() > DIMENSIONS {
            return Err(Error::dimensions().tensor(&self.name));
        }
        Ok(PlacedTensor {
            name: self.name,
            stored_type,
            shape: self.shape,
            offset_bytes: self.offset_bytes,
            strides: self.strides,
        })
    }
}

/// The names of block types in the entries of a header, by the names of the entries.
struct Types(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Top;

        impl<'de> Visitor<'de> for Top {
            type Value = Types;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Types, A::Error> {
                let mut types = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    // Of a repeated name, the last entry counts.
                    match map.next_value::<TypeField>()?.0 {
                        Some(of) => types.insert(name, of),
                        None => types.remove(&name),
                    };
                }
                Ok(Types(types))
            }
        }

        deserializer.deserialize_map(Top)
    }
}

/// The block type of an entry, if it has one. An entry may be a list of its fields, and
/// then has none.
struct TypeField(Option<String>);

impl<'de> Deserialize<'de> for TypeField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = TypeField;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TypeField, A::Error> {
                let mut found = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == TYPE_KEY {
                        found = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(TypeField(found))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TypeField, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(TypeField(None))
            }
        }

        deserializer.deserialize_any(Entry)
    }
}
