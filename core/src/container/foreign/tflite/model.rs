//! The tensors of a model: tables of names and shapes, and the buffers that
//! contain their values (docs/formats/tflite.md 2).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::flatbuffer::{Buffer, Table, refuse};
use crate::container::foreign::narrow::NarrowType;
use crate::container::foreign::random_access::{Fetched, Read, Stop};
use crate::container::foreign::shape::{SIZE, element_count};
use crate::dtype::Dtype;
use crate::limits::{DIMENSIONS, NAME_LEN_BYTES, TEXT_LEN_BYTES, TFLITE_TENSORS};
use crate::{Error, Result, Rule};

/// The four letters at offset 4 of a model.
pub(super) const IDENTIFIER: &[u8] = b"TFL3";

/// The type of elements in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TfliteType {
    /// Elements that are stored as their values.
    Whole(Dtype),
    /// Integers of 4 bits.
    Narrow(NarrowType),
}

impl TfliteType {
    /// Returns the type with this number, or the name of a type that cannot be
    /// read; `None` for unknown numbers.
    fn from_number(number: u8) -> Option<Result<Self, &'static str>> {
        Some(Ok(match number {
            0 => Self::Whole(Dtype::F32),
            1 => Self::Whole(Dtype::F16),
            2 => Self::Whole(Dtype::I32),
            3 => Self::Whole(Dtype::U8),
            4 => Self::Whole(Dtype::I64),
            5 => return Some(Err("texts")),
            6 => Self::Whole(Dtype::Bool),
            7 => Self::Whole(Dtype::I16),
            8 => Self::Whole(Dtype::C64),
            9 => Self::Whole(Dtype::I8),
            10 => Self::Whole(Dtype::F64),
            11 => return Some(Err("complex numbers of 128 bits")),
            12 => Self::Whole(Dtype::U64),
            13 | 14 => return Some(Err("references to objects")),
            15 => Self::Whole(Dtype::U32),
            16 => Self::Whole(Dtype::U16),
            17 => Self::Narrow(NarrowType::I4),
            18 => Self::Whole(Dtype::Bf16),
            _ => return None,
        }))
    }

    /// Returns the dtype of the values.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Whole(dtype) => dtype,
            Self::Narrow(narrow) => narrow.dtype(),
        }
    }

    /// Returns the name of the stored type if its values are read as another
    /// type.
    #[must_use]
    pub fn narrow_name(self) -> Option<&'static str> {
        match self {
            Self::Whole(_) => None,
            Self::Narrow(_) => Some("INT4"),
        }
    }
}

/// A tensor with values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TfliteTensor {
    /// The name, unique within the model: a number follows repeated names.
    pub name: String,
    /// The type of the elements.
    pub element: TfliteType,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The length of the values in bytes.
    pub len_bytes: u64,
    /// The range of the file that contains the values.
    pub stored: Range<u64>,
}

/// The contents of a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TfliteModel {
    /// The tensors with values, in the order of the file.
    pub tensors: Vec<TfliteTensor>,
    /// The names of tensors with values that cannot be read, with the reasons.
    pub refused: Vec<(String, Error)>,
    /// The version and the description, as text.
    pub metadata: Vec<(String, String)>,
}

/// The result of parsing the fetched bytes of a file.
#[derive(Debug, Clone)]
pub enum ParsedModel {
    /// The whole list of tensors.
    Complete(TfliteModel),
    /// These ranges are missing. They do not overlap.
    Needs(Vec<Range<u64>>),
}

impl TfliteModel {
    /// Parses the tables of a file of `file_len_bytes`, of which `fetched`
    /// returns bytes.
    ///
    /// # Errors
    /// [`Rule::TfliteIdentifier`], [`Rule::TfliteFlatbuffer`] and
    /// [`Rule::TfliteName`], with the offset in the file.
    pub fn parse<'a>(fetched: &Fetched<'a>, file_len_bytes: u64) -> Result<ParsedModel> {
        let mut parser = Parser {
            buffer: Buffer::new(fetched, file_len_bytes),
            names: BTreeMap::new(),
            model: Self::default(),
        };
        match parser.model() {
            Ok(()) | Err(Stop::Missing) => {}
            Err(Stop::Refused(error)) => return Err(error),
        }
        let missing = parser.buffer.missing();
        Ok(match missing.is_empty() {
            true => ParsedModel::Complete(parser.model),
            false => ParsedModel::Needs(missing),
        })
    }
}

/// The fields of a tensor's table.
struct Fields<'a> {
    at: u64,
    name: Cow<'a, [u8]>,
    shape: Result<Vec<u64>>,
    number: u8,
    is_sparse: bool,
    values: Range<u64>,
}

struct Parser<'f, 'a> {
    buffer: Buffer<'f, 'a>,
    /// The number of tensors with each name.
    names: BTreeMap<String, u64>,
    model: TfliteModel,
}

impl<'a> Parser<'_, 'a> {
    fn model(&mut self) -> Read<()> {
        let buffer = &mut self.buffer;
        if buffer.len_bytes() < 8 {
            return Err(refuse("the file ends before its first table", 0).into());
        }
        if *buffer.bytes(4, 4)? != *IDENTIFIER {
            let detail = "the file does not have the identifier TFL3 of TensorFlow Lite";
            return Err(Error::malformed(Rule::TfliteIdentifier, detail)
                .at(4)
                .into());
        }
        let root = buffer.follow(0)?;
        let root = buffer.table(root)?;
        self.describe(root)?;
        let buffers = self.buffer.vector(root, 4, 4)?.unwrap_or_default();
        let (graphs, graph_count) = self.buffer.vector(root, 2, 4)?.unwrap_or_default();
        for graph in 0..graph_count {
            self.optional(|parser| {
                let at = parser.buffer.follow(graphs + 4 * graph)?;
                let table = parser.buffer.table(at)?;
                parser.graph(table, buffers)
            })?;
        }
        Ok(())
    }

    /// Continues after missing bytes, so that all of them are requested at once.
    fn optional(&mut self, read: impl FnOnce(&mut Self) -> Read<()>) -> Read<()> {
        match read(self) {
            Err(Stop::Missing) => Ok(()),
            done => done,
        }
    }

    fn describe(&mut self, root: Table) -> Read<()> {
        if let Some(at) = self.buffer.field(root, 0, 4)? {
            let version = self.buffer.u32(at)?.to_string();
            self.model.metadata.push(("version".into(), version));
        }
        if let Some(text) = self.buffer.text(root, 3, TEXT_LEN_BYTES)? {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.model.metadata.push(("description".into(), text));
        }
        Ok(())
    }

    fn graph(&mut self, graph: Table, buffers: (u64, u64)) -> Read<()> {
        let (tensors, count) = self.buffer.vector(graph, 0, 4)?.unwrap_or_default();
        for number in 0..count {
            self.optional(|parser| {
                let at = parser.buffer.follow(tensors + 4 * number)?;
                match parser.fields(at, buffers)? {
                    Some(fields) => Ok(parser.add(fields)?),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Reads the table of a tensor; `None` for a tensor without values.
    fn fields(&mut self, at: u64, buffers: (u64, u64)) -> Read<Option<Fields<'a>>> {
        let table = self.buffer.table(at)?;
        let number = match self.buffer.field(table, 2, 4)? {
            Some(at) => u64::from(self.buffer.u32(at)?),
            None => 0,
        };
        let values = self.values(number, buffers)?;
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return Ok(None);
        };
        let name = self.buffer.text(table, 3, NAME_LEN_BYTES as u64)?;
        let shape = self.shape(table)?;
        let number = match self.buffer.field(table, 1, 1)? {
            Some(at) => self.buffer.u8(at)?,
            None => 0,
        };
        Ok(Some(Fields {
            at,
            name: name.unwrap_or_default(),
            shape,
            number,
            is_sparse: self.buffer.field(table, 6, 4)?.is_some(),
            values,
        }))
    }

    fn shape(&mut self, table: Table) -> Read<Result<Vec<u64>>> {
        let Some((start, rank)) = self.buffer.vector(table, 0, 4)? else {
            return Ok(Ok(Vec::new()));
        };
        if rank > DIMENSIONS as u64 {
            return Ok(Err(Error::dimensions()));
        }
        let bytes = self.buffer.bytes(start, 4 * rank)?;
        let sizes = bytes.as_chunks::<4>().0.iter();
        let sizes = sizes.map(|size| u64::try_from(i32::from_le_bytes(*size)).ok());
        let shape: Option<Vec<u64>> = sizes.collect();
        Ok(shape
            .ok_or_else(|| Error::malformed(Rule::TfliteShape, "its shape has a negative size")))
    }

    /// Returns the range of the values in buffer `number`.
    fn values(&mut self, number: u64, (buffers, count): (u64, u64)) -> Read<Option<Range<u64>>> {
        // Buffer 0 marks tensors without values.
        if number == 0 {
            return Ok(None);
        }
        if number >= count {
            return Err(refuse("a tensor has a buffer that does not exist", buffers).into());
        }
        let at = self.buffer.follow(buffers + 4 * number)?;
        let table = self.buffer.table(at)?;
        // Values of large models follow the tables. Smaller offsets are not used.
        if let Some(field) = self.buffer.field(table, 1, 8)?
            && let start @ 2.. = self.buffer.u64(field)?
        {
            let len_bytes = match self.buffer.field(table, 2, 8)? {
                Some(field) => self.buffer.u64(field)?,
                None => 0,
            };
            let end = start.checked_add(len_bytes);
            let end = end.filter(|end| *end <= self.buffer.len_bytes());
            let end = end.ok_or_else(|| refuse("a buffer leaves the file", at))?;
            return Ok(Some(start..end));
        }
        let data = self.buffer.vector(table, 0, 1)?;
        Ok(data.map(|(start, len_bytes)| start..start + len_bytes))
    }

    fn add(&mut self, fields: Fields) -> Result<()> {
        if self.model.tensors.len() + self.model.refused.len() >= TFLITE_TENSORS {
            let detail = format!("the model has more than {TFLITE_TENSORS} tensors, the most read");
            return Err(Error::limit(detail).at(fields.at));
        }
        let name = core::str::from_utf8(&fields.name).map_err(|_| {
            let detail = "the name of a tensor is not UTF-8";
            Error::malformed(Rule::TfliteName, detail).at(fields.at)
        })?;
        let name = self.unique(name);
        let at = fields.at;
        match checked(name.clone(), fields) {
            Ok(tensor) => self.model.tensors.push(tensor),
            Err(error) => {
                let error = error.at(at).tensor(&name);
                self.model.refused.push((name, error));
            }
        }
        Ok(())
    }

    /// Returns the name for a tensor called `name`: a repeated name is followed
    /// by `#` and a number from 2.
    fn unique(&mut self, name: &str) -> String {
        let Some(&count) = self.names.get(name) else {
            self.names.insert(name.into(), 1);
            return name.into();
        };
        let mut number = count;
        loop {
            number += 1;
            let numbered = format!("{name}#{number}");
            if !self.names.contains_key(&numbered) {
                self.names.insert(name.into(), number);
                self.names.insert(numbered.clone(), 1);
                return numbered;
            }
        }
    }
}

/// Checks the fields of the tensor called `name`.
fn checked(name: String, fields: Fields) -> Result<TfliteTensor> {
    let number = fields.number;
    let refuse = |detail: String| Error::malformed(Rule::TfliteType, detail);
    let element = match TfliteType::from_number(number) {
        Some(Ok(element)) => element,
        Some(Err(what)) => {
            let detail = format!("its elements are {what} (type {number}), which are not read");
            return Err(refuse(detail));
        }
        None => {
            return Err(refuse(format!(
                "its elements have the unknown type {number}"
            )));
        }
    };
    if fields.is_sparse {
        let detail = "it is a sparse tensor of TensorFlow Lite, which is not read";
        return Err(Error::unsupported(detail));
    }
    let shape = fields.shape?;
    let count = element_count(&shape);
    let len_bytes = count.and_then(|count| count.checked_mul(element.dtype().bits() / 8));
    let Some((count, len_bytes)) = count.zip(len_bytes.filter(|len| *len <= SIZE)) else {
        let detail = "its shape has more than 2^63 - 1 elements or bytes";
        return Err(Error::malformed(Rule::TfliteShape, detail));
    };
    let expected = match element {
        TfliteType::Whole(_) => len_bytes,
        TfliteType::Narrow(narrow) => count.div_ceil(8 / narrow.bits()),
    };
    let stored_bytes = fields.values.end - fields.values.start;
    if stored_bytes != expected {
        let detail = format!(
            "its values have {stored_bytes} bytes, which is not the length of {count} elements"
        );
        return Err(Error::malformed(Rule::TfliteLength, detail));
    }
    Ok(TfliteTensor {
        name,
        element,
        shape,
        len_bytes,
        stored: fields.values,
    })
}
