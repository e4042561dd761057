//! A tensor of a model: its fields as they are found, and the checks of these
//! fields (docs/formats/onnx.md 2 to 4).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::element_type::{OnnxType, TypedField};
use super::external::{ExternalData, ExternalKeys};
use crate::container::foreign::shape::{SIZE, element_count};
use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};

/// The place of a tensor's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnnxPlace {
    /// The values are stored at this range of the file: `raw_data`, or the packed
    /// numbers of `float_data` or `double_data`.
    Raw(Range<u64>),
    /// The values are other numbers in fields of the message at this range of the
    /// file.
    Typed(Range<u64>),
    /// The values are in another file.
    External(ExternalData),
}

/// A tensor that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnnxTensor {
    /// The name, unique within the model (docs/formats/onnx.md 5).
    pub name: String,
    /// The type of the elements.
    pub element: OnnxType,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The length of the values in bytes.
    pub len_bytes: u64,
    /// The length in bytes of the values as `raw_data` or another file stores
    /// them.
    pub raw_bytes: u64,
    /// The place of the values.
    pub place: OnnxPlace,
}

/// The bytes of one of the fields of numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    len_bytes: u64,
    /// True if a run of packed numbers ends inside a number.
    is_broken: bool,
}

/// The fields of a tensor that have been found so far.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The range of the message in the file.
    pub range: Range<u64>,
    pub name: Option<Vec<u8>>,
    pub data_type: u64,
    /// The values of `dims`. At most one more than [`DIMENSIONS`] are kept.
    dims: Vec<u64>,
    raw: Option<Range<u64>>,
    is_raw_twice: bool,
    numbers: [Numbers; TypedField::ALL.len()],
    /// The last field of packed numbers that have a fixed length and are not empty.
    fixed_run: Option<Range<u64>>,
    has_texts: bool,
    pub has_segment: bool,
    pub is_external: bool,
    pub external: ExternalKeys,
}

impl Draft {
    pub fn new(range: Range<u64>) -> Self {
        Self {
            range,
            name: None,
            data_type: 0,
            dims: Vec::new(),
            raw: None,
            is_raw_twice: false,
            numbers: [Numbers::default(); TypedField::ALL.len()],
            fixed_run: None,
            has_texts: false,
            has_segment: false,
            is_external: false,
            external: ExternalKeys::default(),
        }
    }

    pub fn add_dimension(&mut self, size: u64) {
        if self.dims.len() <= DIMENSIONS {
            self.dims.push(size);
        }
    }

    pub fn add_raw(&mut self, range: Range<u64>) {
        self.is_raw_twice |= self.raw.replace(range).is_some();
    }

    pub fn add_texts(&mut self) {
        self.has_texts = true;
    }

    /// Adds the packed numbers at `range` of the file in the field `number`, if it is one
    /// of [`TypedField`].
    pub fn add_packed(&mut self, number: u64, range: &Range<u64>) {
        self.add_numbers(number, range.end - range.start, None);
        let mut fields = TypedField::ALL.iter();
        let is_fixed = fields.any(|f| f.number() == number && f.fixed_bytes().is_some());
        if is_fixed && !range.is_empty() {
            self.fixed_run = Some(range.clone());
        }
    }

    /// Adds numbers in the field `number`, if it is one of [`TypedField`]: packed
    /// ones, or one number, for which `fixed_bytes` is its length if that does not
    /// vary. A number of another length is an unknown field.
    pub fn add_numbers(&mut self, number: u64, len_bytes: u64, fixed_bytes: Option<Option<u64>>) {
        let mut fields = TypedField::ALL.iter().zip(&mut self.numbers);
        let found = fields.find(|(field, _)| field.number() == number);
        let is_known = |field: &TypedField| {
            fixed_bytes.is_none_or(|fixed_bytes| fixed_bytes == field.fixed_bytes())
        };
        if let Some((field, numbers)) = found.filter(|(field, _)| is_known(field)) {
            let width = field.fixed_bytes().unwrap_or(1);
            numbers.is_broken |= !len_bytes.is_multiple_of(width);
            numbers.len_bytes = numbers.len_bytes.saturating_add(len_bytes);
        }
    }

    /// Checks the fields and returns the tensor called `name`.
    ///
    /// # Errors
    /// The rule that makes this tensor unreadable.
    pub fn finish(self, name: String) -> Result<OnnxTensor> {
        let at = self.range.start;
        self.checked(name.clone())
            .map_err(|error| error.at(at).tensor(&name))
    }

    fn checked(self, name: String) -> Result<OnnxTensor> {
        let element = self.element()?;
        if self.dims.len() > DIMENSIONS {
            return Err(Error::dimensions());
        }
        let bits = element.dtype().bits().max(8);
        let count = element_count(&self.dims);
        let len_bytes = count.and_then(|count| count.checked_mul(bits / 8));
        let Some((count, len_bytes)) = count.zip(len_bytes.filter(|len| *len <= SIZE)) else {
            let detail = "its shape has a negative size, or more than 2^63 - 1 elements or bytes";
            return Err(Error::malformed(Rule::OnnxShape, detail));
        };
        let raw_bytes = stored_bytes(count, element.stored_bits());
        let place = self.place(element, count, raw_bytes)?;
        Ok(OnnxTensor {
            name,
            element,
            shape: self.dims,
            len_bytes,
            raw_bytes,
            place,
        })
    }

    fn element(&self) -> Result<OnnxType> {
        let number = self.data_type;
        match OnnxType::from_number(number) {
            Some(Ok(element)) => Ok(element),
            Some(Err(name)) => {
                let detail = format!("its elements are {name} (type {number}), which are not read");
                Err(Error::malformed(Rule::OnnxType, detail))
            }
            None => {
                let detail = format!("its elements have the unknown type {number}");
                Err(Error::malformed(Rule::OnnxType, detail))
            }
        }
    }

    fn place(&self, element: OnnxType, count: u64, raw_bytes: u64) -> Result<OnnxPlace> {
        if self.has_segment {
            return Err(Error::unsupported(
                "it is stored in segments, which are not read",
            ));
        }
        let field = element.field();
        let mut fields = TypedField::ALL.iter().zip(&self.numbers);
        let is_foreign =
            self.has_texts || fields.any(|(other, n)| *other != field && n.len_bytes > 0);
        let numbers = self.numbers[field as usize];
        let sources = usize::from(self.raw.is_some())
            + usize::from(numbers.len_bytes > 0)
            + usize::from(self.is_external)
            + usize::from(self.is_raw_twice || is_foreign);
        if sources > 1 || is_foreign {
            let detail = "its values are stored twice, or in a field of another type";
            return Err(Error::malformed(Rule::OnnxValue, detail));
        }
        if self.is_external {
            return self.external.place(raw_bytes).map(OnnxPlace::External);
        }
        let wrong_len = |stored: u64| {
            let detail =
                format!("its values have {stored} bytes, which is not the length of {count}");
            Error::malformed(Rule::OnnxLength, detail)
        };
        if let Some(raw) = &self.raw {
            let stored = raw.end - raw.start;
            return match stored == raw_bytes {
                true => Ok(OnnxPlace::Raw(raw.clone())),
                false => Err(wrong_len(stored)),
            };
        }
        let values = number_count(element, count);
        let fits = match field.fixed_bytes() {
            Some(width) => values.checked_mul(width) == Some(numbers.len_bytes),
            // A number of variable length has 1 to 10 bytes.
            None => values <= numbers.len_bytes && numbers.len_bytes.div_ceil(10) <= values,
        };
        if !fits || numbers.is_broken {
            return Err(wrong_len(numbers.len_bytes));
        }
        // Packed numbers of a fixed length are the elements, if one field has all of them.
        let run = self.fixed_run.as_ref();
        let run = run.filter(|run| run.end - run.start == numbers.len_bytes);
        Ok(match run.filter(|_| raw_bytes == numbers.len_bytes) {
            Some(run) => OnnxPlace::Raw(run.clone()),
            None => OnnxPlace::Typed(self.range.clone()),
        })
    }
}

/// Returns the number of numbers that store `count` elements: two for a complex
/// number, and one for each byte of elements that are smaller than a byte.
pub(super) fn number_count(element: OnnxType, count: u64) -> u64 {
    match element {
        OnnxType::Whole(crate::dtype::Dtype::C64) => count.saturating_mul(2),
        OnnxType::Whole(_) => count,
        OnnxType::Narrow(narrow) => stored_bytes(count, narrow.bits()),
    }
}

/// Returns the length in bytes of `count` elements of `bits` bits, the last byte
/// padded.
fn stored_bytes(count: u64, bits: u64) -> u64 {
    match bits {
        // The product does not overflow, since the values have fewer than 2^63
        // bytes.
        8.. => count.saturating_mul(bits / 8),
        _ => count.div_ceil(8 / bits.max(1)),
    }
}
