//! A model's strings for C. Each ends in a NUL and lives as long as the model.

use std::ffi::c_char;
use std::ptr;

use zstn::zstn_core::dtype::Dtype;
use zstn::zstn_core::model::Model;

/// NUL-terminated strings in one allocation.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Texts {
    fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for text in texts {
            all.starts.push(all.bytes.len());
            all.bytes.extend_from_slice(text.as_bytes());
            all.bytes.push(0);
        }
        all
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns a string and its length without the NUL, or NULL if `number` is out of
    /// range.
    pub fn get(&self, number: usize) -> (*const c_char, usize) {
        let Some(&start) = self.starts.get(number) else {
            return (ptr::null(), 0);
        };
        let end = self.starts.get(number + 1).copied();
        let text = &self.bytes[start..end.unwrap_or(self.bytes.len())];
        (text.as_ptr().cast(), text.len() - 1)
    }
}

/// The strings of one model.
pub struct Strings {
    pub names: Texts,
    pub keys: Texts,
    pub values: Texts,
    pub kind: Texts,
    dtypes: Texts,
}

impl Strings {
    pub fn of(model: &Model) -> Self {
        let metadata = model.metadata();
        Self {
            names: Texts::of(model.tensors().iter().map(|tensor| &*tensor.name)),
            keys: Texts::of(metadata.keys().map(String::as_str)),
            values: Texts::of(metadata.values().map(String::as_str)),
            kind: Texts::of([model.kind().name()].into_iter()),
            dtypes: Texts::of(Dtype::ALL.iter().map(|dtype| dtype.name())),
        }
    }

    pub fn dtype(&self, dtype: Dtype) -> *const c_char {
        let number = Dtype::ALL.iter().position(|other| *other == dtype);
        number.map_or(ptr::null(), |number| self.dtypes.get(number).0)
    }
}
