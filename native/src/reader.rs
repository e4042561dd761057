//! Single tensors out of a file, packed or plain, local or remote.

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
pub struct Reader {
    source: Box<dyn Source>,
    catalog: Catalog,
    engine: Native,
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
        })
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

    /// Reads the tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let refuse = Error::place(self.source.name());
        let number = self.catalog.find(name).map_err(&refuse)?;
        let tensor = &self.catalog.tensors()[number];
        let stored = self.source.read(tensor.stored.clone())?;
        let bytes = self
            .catalog
            .decode(&self.engine, number, &stored)
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

fn open_catalog(source: &dyn Source) -> Result<Catalog> {
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
