//! Single tensors out of a model, packed or plain, local or remote.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use zstn_core::ErrorKind;
use zstn_core::dtype::Dtype;
use zstn_core::model::{self, Model};

use crate::delta::check_chain;
use crate::source::{Input, Source};
use crate::{Engine, Error, Result, suggest};

mod batch;
mod decode;
mod opening;
mod options;
mod rows;
mod statistics;

pub use options::ReaderOptions;
pub use rows::RowsPlan;

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

/// The way in which weights that are stored in parts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Weights in the formats of compressed-tensors are read dense, if a
    /// `config.json` next to the files says how they are stored.
    #[default]
    Dense,
    /// Every tensor is read as it is stored.
    Stored,
}

/// An opened model. Opening reads head, header and index of each of its
/// files; after that each tensor costs one read of its stored bytes, or one
/// per part for a weight that is stored in several. Files on servers are opened
/// at the same time, and parts of a tensor are read at the same time.
///
/// A delta (`Z4DM`) lists its tensors by itself; reading them takes its base
/// as well, given by [`ReaderOptions::base`]. A tensor then costs a read of
/// what the delta stores of it and one of the base's tensor of that name. The
/// base may be plain, packed, or a delta with a base of its own.
///
/// A clone is another handle to the same open files. Threads may read from one
/// reader, or from its clones, at the same time.
#[derive(Clone)]
pub struct Reader {
    files: Arc<Files>,
    /// Holds what is known of the base.
    model: Arc<Model>,
    engine: Engine,
    base: Option<Arc<Self>>,
}

/// The files of an opened model, which all handles share.
struct Files {
    name: String,
    sources: Vec<Box<dyn Source>>,
}

impl Reader {
    /// Opens a file of any kind, the index of a checkpoint in several files, or
    /// a local folder that holds a model (docs/formats/sharded.md): a path, a
    /// [`Location`](crate::Location) or another [`Input`]. [`Reader::options`]
    /// opens it in other ways.
    ///
    /// # Errors
    /// An input that is refused or cannot be read.
    pub fn open(input: impl Into<Input>) -> Result<Self> {
        Self::options().open(input)
    }

    /// Returns the options that [`Reader::open`] uses, to be changed.
    pub fn options() -> ReaderOptions {
        ReaderOptions::default()
    }

    fn check_takes_base(&self) -> Result<()> {
        if self.model.needs_base() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{} is not a difference from another checkpoint and takes no base",
            self.files.name
        )))
    }

    /// Adds the base of a delta; its tensors are decoded by the engine of this
    /// reader. A base that does not fit is refused as far as names, lengths and
    /// dtypes show it; other bytes in one of its tensors are found when that is
    /// read (docs/formats/zstn-delta.md 4).
    pub fn with_base(mut self, base: Self) -> Result<Self> {
        self.check_takes_base()?;
        let bases = iter::successors(Some(&base), |base| base.base());
        check_chain(&bases.map(Self::name).collect::<Vec<_>>())?;
        Arc::make_mut(&mut self.model)
            .attach_base(&base.model)
            .map_err(Error::place(&self.files.name))?;
        self.base = Some(Arc::new(base));
        Ok(self)
    }

    /// Returns a handle to the same open files that decodes with `engine`: for
    /// a process that was forked from the one that opened them, which has none
    /// of the other engine's threads.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self
    }

    /// Returns a reader of the same model that reads its bytes from `sources`, one
    /// for each file, which have to hold the same bytes: for a server whose
    /// clients each read with permissions of their own. It is called as the first
    /// of them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sources(&self, sources: Vec<Box<dyn Source>>) -> Self {
        debug_assert_eq!(sources.len(), self.files.sources.len());
        Self {
            files: Arc::new(Files {
                name: sources
                    .first()
                    .map_or_else(String::new, |source| source.name().into()),
                sources,
            }),
            model: Arc::clone(&self.model),
            engine: self.engine.clone(),
            base: self.base.clone(),
        }
    }

    /// Returns the base of a delta, if it has been given.
    #[must_use]
    pub fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// Returns the engine that decodes its tensors.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns what the model holds.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the path or address it was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Returns the sources of its files, in the order of their numbers.
    #[must_use]
    pub fn sources(&self) -> &[Box<dyn Source>] {
        &self.files.sources
    }

    /// Returns the names of all tensors, file by file and there in the order of the
    /// index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.model.tensors().iter().map(|t| t.name.as_str())
    }

    /// Returns all sources, including those of the base and its base.
    pub fn all_sources(&self) -> impl Iterator<Item = &dyn Source> {
        let readers = iter::successors(Some(self), |reader| reader.base());
        let sources = readers.flat_map(|reader| reader.sources());
        sources.map(|source| &**source)
    }

    /// Returns name, dtype, shape and stored parts of every tensor, in the same
    /// order.
    #[must_use]
    pub fn tensors(&self) -> &[model::Tensor] {
        self.model.tensors()
    }

    /// Returns the `__metadata__` of the safetensors headers.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.model.metadata()
    }

    /// Returns what the model's index says about the tensor called `name`.
    pub fn find(&self, name: &str) -> Result<&model::Tensor> {
        Ok(&self.model.tensors()[self.number(name)?])
    }

    /// Returns the number of the tensor called `name`; the error suggests similar
    /// names.
    fn number(&self, name: &str) -> Result<usize> {
        self.model.find(name).map_err(|error| {
            let error = match error.kind() {
                ErrorKind::NotFound => error.hint(&suggest::hint(name, self.names())),
                _ => error,
            };
            Error::place(&self.files.name)(error)
        })
    }

    /// Reads the tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let number = self.number(name)?;
        let bytes = self.decode(&self.engine, number)?;
        let tensor = &self.tensors()[number];
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes,
        })
    }

    /// Reads the bytes of the tensor called `name` into `out`, which has to be
    /// exactly as long: [`model::Tensor::len_bytes`] of [`Reader::find`]. Plain
    /// tensors and those of ZSTN files are read or decoded in place, others
    /// are copied.
    ///
    /// # Errors
    /// As [`Reader::read`]. If `out` has another length, nothing is read and
    /// the error is a refusal of the kind
    /// [`InvalidInput`](ErrorKind::InvalidInput). `out` may hold anything after
    /// any other error.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
    /// # let len = (header.len() as u64).to_le_bytes();
    /// # std::fs::write(&path, [&len[..], header, &[1, 2, 3]].concat())?;
    /// let reader = zstn::Reader::open(&path)?;
    /// let mut bytes = vec![0; usize::try_from(reader.find("x")?.len_bytes())?];
    /// reader.read_into("x", &mut bytes)?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// assert!(reader.read_into("x", &mut bytes[1..]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_into(&self, name: &str, out: &mut [u8]) -> Result<()> {
        let number = self.number(name)?;
        self.check_len(number, out)?;
        self.decode_into(&self.engine, number, out)
    }

    /// Refuses memory that does not hold exactly the tensor of this number.
    fn check_len(&self, number: usize, out: &[u8]) -> Result<()> {
        let tensor = &self.tensors()[number];
        let len_bytes = tensor.len_bytes();
        if out.len() as u64 == len_bytes {
            return Ok(());
        }
        let detail = format!(
            "the tensor has {len_bytes} bytes, the buffer to read it into has {}",
            out.len()
        );
        let refusal = zstn_core::Error::invalid_input(detail).tensor(&tensor.name);
        Err(Error::place(self.name())(refusal))
    }
}
