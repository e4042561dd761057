//! Single tensors out of a file, packed or plain, local or remote.

use std::collections::BTreeMap;

use zstn_core::catalog::{Catalog, Opening};
use zstn_core::dtype::Dtype;

use crate::source::{Place, Source};
use crate::{Error, Native, Result};

/// A tensor in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// The elements, little-endian and row-major.
    pub bytes: Vec<u8>,
}

/// An opened file. Opening reads its head, header and index; after that each
/// tensor costs one read of its stored bytes.
///
/// A delta (`Z4DM`) lists its tensors by itself; reading them takes its base
/// as well, given by [`Reader::with_base`]. A tensor then costs a read of
/// what the delta stores of it and one of the base's tensor of that name. The
/// base may be plain, packed, or a delta with a base of its own.
pub struct Reader {
    source: Box<dyn Source>,
    catalog: Catalog,
    engine: Native,
    base: Option<Box<Reader>>,
}

impl Reader {
    /// Opens a path or an http(s) address.
    pub fn open(place: &str) -> Result<Self> {
        Self::from_source(Place::from(place).open()?, Native::new(0)?)
    }

    /// Opens any source.
    pub fn from_source(source: Box<dyn Source>, engine: Native) -> Result<Self> {
        let catalog = open_catalog(&*source)?;
        Ok(Self {
            source,
            catalog,
            engine,
            base: None,
        })
    }

    /// Adds the base of a delta. A base that does not fit is refused as far
    /// as names, lengths and dtypes show it; other bytes in one of its
    /// tensors are found when that is read (docs/formats/zstn-delta.md 4).
    pub fn with_base(mut self, base: Self) -> Result<Self> {
        if !self.catalog.needs_base() {
            return Err(Error::Usage(format!(
                "{} is no difference from another checkpoint and takes no base",
                self.source.name()
            )));
        }
        self.catalog
            .check_base(&base.catalog)
            .map_err(Error::place(self.source.name()))?;
        self.base = Some(Box::new(base));
        Ok(self)
    }

    /// The base of a delta, if it has been given.
    #[must_use]
    pub fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// What the file holds.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Names of all tensors, in the order of the file's index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.catalog.tensors().iter().map(|t| t.name.as_str())
    }

    /// Name, dtype, shape and place of every tensor, in the same order.
    #[must_use]
    pub fn header(&self) -> &[zstn_core::catalog::Tensor] {
        self.catalog.tensors()
    }

    /// `__metadata__` of the safetensors header.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.catalog.metadata()
    }

    /// Bytes that the tensor called `name` takes in the file.
    pub fn frame_size(&self, name: &str) -> Result<u64> {
        let number = self.catalog.find(name);
        let number = number.map_err(Error::place(self.source.name()))?;
        Ok(self.catalog.tensors()[number].stored_len_bytes())
    }

    /// Reads the bytes of the tensor called `name`.
    pub fn read_raw(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.read(name)?.bytes)
    }

    /// Reads the tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let refuse = Error::place(self.source.name());
        let number = self.catalog.find(name).map_err(&refuse)?;
        let tensor = &self.catalog.tensors()[number];
        let base = match (tensor.base, &self.base) {
            (None, _) => None,
            (Some(_), Some(base)) => Some(base.read(name)?.bytes),
            (Some(_), None) => {
                return Err(Error::Usage(format!(
                    "{} is a difference from another checkpoint, and `{name}` is needed from that \
                     one: name it with --base",
                    self.source.name()
                )));
            }
        };
        let stored = self.source.read(tensor.stored.clone())?;
        let bytes = self
            .catalog
            .decode_against(&self.engine, number, &stored, base.as_deref())
            .map_err(&refuse)?
            .into_owned();
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes,
        })
    }
}

/// The catalog of a file, by way of the reads it needs.
pub(crate) fn open_catalog(source: &dyn Source) -> Result<Catalog> {
    let refuse = Error::place(source.name());
    let len = source.len_bytes();
    let head = source.read(0..Opening::head_len_bytes(len))?.into_owned();
    let mut opening = Opening::new(len, head).map_err(&refuse)?;
    loop {
        let needs = opening.needs().map_err(&refuse)?;
        if needs.is_empty() {
            return opening.finish().map_err(&refuse);
        }
        for range in needs {
            let bytes = source.read(range.clone())?;
            opening.supply(range.start, &bytes).map_err(&refuse)?;
        }
    }
}
