//! A model as its user sees it: one list of tensors, whether they come from
//! one file or several, and whether a tensor is stored as it is or in parts
//! that `config.json` explains. No I/O: bytes come from the caller, who asks
//! [`Assembly`] and [`Part`] which ones are needed.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::catalog::{BaseUse, Catalog, Kind};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::{Error, Result};

mod assembly;
#[cfg(feature = "compressed-tensors")]
mod dense;
#[cfg(not(feature = "compressed-tensors"))]
#[path = "dense_left_out.rs"]
mod dense;
#[cfg(feature = "portable")]
mod recipe;
mod rows;
mod unpacked;

pub use assembly::{Assembly, wants_config};
pub use dense::Weight;
#[cfg(feature = "portable")]
pub use recipe::Recipe;
pub use rows::Rows;
pub use unpacked::{Piece, Unpacked};

/// A stored tensor that a tensor of the model is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of the file.
    pub file: usize,
    /// Number of the tensor in its catalog.
    pub number: usize,
    /// Bytes of the file to fetch.
    pub stored: Range<u64>,
}

impl Part {
    fn len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }
}

/// One tensor of a model.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// What to fetch for it: one part, or several if it is [`Tensor::weight`].
    pub parts: Vec<Part>,
    /// What the base's tensor of the same name is needed for, if it is.
    pub base: Option<BaseUse>,
    /// Number of the earlier tensor that owns the stored bytes, if tied.
    pub shared_with: Option<usize>,
    len_bytes: u64,
    /// Few tensors have one, and it is large.
    weight: Option<Box<Weight>>,
}

impl Tensor {
    /// Bytes of the tensor itself, little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Bytes it takes in its files, shared ones included.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.parts.iter().map(Part::len_bytes).sum()
    }

    /// Its only part, if it needs nothing else.
    fn alone(&self) -> Option<&Part> {
        match self.parts.as_slice() {
            [only] if self.weight.is_none() && self.base.is_none() => Some(only),
            _ => None,
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // Its length in bytes has been found to fit 64 bits.
        self.shape.iter().product()
    }

    /// How its parts make it, if it is a weight of compressed-tensors.
    #[must_use]
    pub fn weight(&self) -> Option<&Weight> {
        self.weight.as_deref()
    }

    /// Name of the format of such a weight, like `pack-quantized`.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        self.weight.as_deref().map(dense::format)
    }
}

/// The tensors of one file, or of several together. Made by [`Assembly`].
#[derive(Debug, Clone)]
pub struct Model {
    files: Vec<Catalog>,
    tensors: Vec<Tensor>,
    by_name: BTreeMap<String, usize>,
    /// Weights that cannot be had, with the reason.
    refused: BTreeMap<String, Error>,
    metadata: BTreeMap<String, String>,
    is_dense: bool,
    is_rotated: bool,
}

impl Model {
    /// What kind of files it lies in; [`Kind::CompressedTensors`] if
    /// `config.json` was needed to read them.
    #[must_use]
    pub fn kind(&self) -> Kind {
        if self.is_dense {
            return Kind::CompressedTensors;
        }
        self.files[0].kind()
    }

    /// The files, in the order of their numbers; at least one.
    #[must_use]
    pub fn files(&self) -> &[Catalog] {
        &self.files
    }

    /// Length of all files together.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let lens = self.files.iter().map(Catalog::len_bytes);
        lens.fold(0, u64::saturating_add)
    }

    /// Length of the safetensors files that it is or was packed from; where
    /// there were none (zTensor, Gauss, weights made dense), length of all
    /// tensors.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let add = u64::saturating_add;
        match self.is_dense {
            true => self.tensors.iter().map(Tensor::len_bytes).fold(0, add),
            false => {
                let lens = self.files.iter().map(Catalog::original_len_bytes);
                lens.fold(0, add)
            }
        }
    }

    /// `__metadata__` of the headers (docs/formats/sharded.md 2); of a zTensor
    /// file, the attributes that are texts.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// All tensors, file by file and there in the order of the file's index.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Weights of the model that cannot be had, and why, by name. Their parts
    /// are among the tensors.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.refused.iter().map(|(name, e)| (name.as_str(), e))
    }

    /// Whether weights were rotated before they were quantised: what is read
    /// is the rotated weight.
    #[must_use]
    pub fn is_rotated(&self) -> bool {
        self.is_rotated
    }

    /// Number of the tensor called `name`; an error if there is none or if it
    /// cannot be had.
    pub fn find(&self, name: &str) -> Result<usize> {
        match (self.by_name.get(name), self.refused.get(name)) {
            (Some(number), _) => Ok(*number),
            (None, Some(refusal)) => Err(refusal.clone()),
            (None, None) => Err(Error::not_found(name)),
        }
    }

    /// Whether it has to be opened together with its base.
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.files.iter().any(Catalog::needs_base)
    }

    /// Refuses a base that this delta was not made against
    /// ([`Catalog::check_base`]). In several files, each delta needs one
    /// file of the base that fits.
    pub fn check_base(&self, base: &Self) -> Result<()> {
        if base.is_dense {
            return Err(Error::invalid_input(
                "the base of a delta has to be opened as it is stored",
            ));
        }
        if !self.needs_base() {
            return Err(Error::invalid_input("the file is no delta and has no base"));
        }
        for file in self.files.iter().filter(|file| file.needs_base()) {
            let mut refusal = None;
            let fits = base.files.iter().any(|base| {
                let checked = file.check_base(base);
                checked
                    .map_err(|error| refusal.get_or_insert(error).clone())
                    .is_ok()
            });
            if let Some(refusal) = refusal.filter(|_| !fits) {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Whether the stored bytes of tensor `number` are the tensor, with nothing
    /// to decode or to compare.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    #[must_use]
    pub fn is_plain(&self, number: usize) -> bool {
        let tensor = &self.tensors[number];
        let mut files = tensor.parts.iter().map(|part| &self.files[part.file]);
        tensor.weight.is_none() && files.all(|file| file.kind() == Kind::Safetensors)
    }

    /// The bytes of tensor `number` from those of its parts, in their order,
    /// and from the `base`'s tensor of the same name where [`Tensor::base`]
    /// says so.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        parts: &[&'a [u8]],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let tensor = &self.tensors[number];
        let places = tensor.parts.iter();
        let places = places.map(|part| (&self.files[part.file], part.number));
        let weight = tensor.weight.as_deref();
        let weight = weight.map(|weight| (weight, tensor.shape.as_slice()));
        decode(&tensor.name, places, weight, engine, parts, base)
    }
}

/// The bytes of a tensor from those of its parts, which are at `places`: in
/// that catalog, of that number. If it is a `weight`, with the shape it has.
fn decode<'a, 'm, E: Engine>(
    name: &str,
    places: impl ExactSizeIterator<Item = (&'m Catalog, usize)>,
    weight: Option<(&Weight, &[u64])>,
    engine: &E,
    parts: &[&'a [u8]],
    base: Option<&'a [u8]>,
) -> Result<Cow<'a, [u8]>> {
    if parts.len() != places.len() {
        return Err(Error::invalid_input("these are not the parts of the tensor").tensor(name));
    }
    let mut decoded = places
        .zip(parts)
        .map(|((file, number), &stored)| file.decode_against(engine, number, stored, base));
    let Some((weight, shape)) = weight else {
        return decoded.next().unwrap_or(Ok(Cow::Borrowed(&[])));
    };
    let decoded = decoded.collect::<Result<Vec<_>>>()?;
    let parts: Vec<&[u8]> = decoded.iter().map(|part| &**part).collect();
    dense::decode(weight, shape, &parts).map(Cow::Owned)
}
