//! Encodes the description of a model for JavaScript as one text and one list of numbers.
//! An object for every tensor would need several calls for each of its fields, and much
//! code.

use alloc::string::String;
use alloc::vec::Vec;

use zstn_core::catalog::BaseUse;
use zstn_core::dtype::Dtype;
use zstn_core::model::{Model, TensorInfo};
use zstn_core::{Error, Result};

/// The description of a model: all texts concatenated, and the numbers that describe
/// them. A text is represented by its length in UTF-16 units, in the order of `text`.
///
/// The numbers are: the number of metadata pairs, and for each pair the lengths of name
/// and value; then for each tensor the length of its name, the index of its dtype in the
/// official order, its rank and its dimensions, its decoded length in bytes and the stored
/// bytes that it takes; 0, or 1 for a copy of the base's tensor, or 2 for a delta from it;
/// the index of the tensor whose bytes it shares, or -1; the length of the name of its
/// format, or 0; if there is a format, the length in bytes before packing; the number of
/// its parts, and for each part the file, the offset and the length.
#[derive(Default)]
pub struct Description {
    pub text: String,
    pub numbers: Vec<f64>,
}

impl Description {
    pub fn new(model: &Model) -> Result<Self> {
        let mut all = Self::default();
        all.numbers.push(model.metadata().len() as f64);
        for (name, value) in model.metadata() {
            all.text(name);
            all.text(value);
        }
        for tensor in model.tensors() {
            let fits = all.tensor(tensor);
            fits.ok_or_else(|| {
                Error::limit("a size is too large for JavaScript numbers").tensor(&tensor.name)
            })?;
        }
        Ok(all)
    }

    /// Adds a tensor; `None` if one of its numbers exceeds 2^53.
    fn tensor(&mut self, tensor: &TensorInfo) -> Option<()> {
        self.text(&tensor.name);
        let dtype = Dtype::ALL.iter().position(|&dtype| dtype == tensor.dtype)?;
        self.count(dtype);
        self.count(tensor.shape.len());
        for &dimension in &tensor.shape {
            self.number(dimension)?;
        }
        self.number(tensor.len_bytes())?;
        self.number(tensor.stored_share_bytes())?;
        self.count(match tensor.base {
            None => 0,
            Some(BaseUse::Copy) => 1,
            Some(BaseUse::Delta) => 2,
        });
        let alias_of = tensor.alias_of.map_or(-1.0, |number| number as f64);
        self.numbers.push(alias_of);
        self.text(tensor.format().unwrap_or_default());
        if tensor.format().is_some() {
            self.number(tensor.original_len_bytes())?;
        }
        self.count(tensor.parts.len());
        for part in &tensor.parts {
            self.count(part.file);
            self.number(part.stored.start)?;
            self.number(part.len_bytes())?;
        }
        Some(())
    }

    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        self.count(text.encode_utf16().count());
    }

    fn count(&mut self, count: usize) {
        self.numbers.push(count as f64);
    }

    fn number(&mut self, number: u64) -> Option<()> {
        (number < 1 << 53).then(|| self.numbers.push(number as f64))
    }
}
