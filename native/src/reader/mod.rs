//! Reads single tensors from a model that is packed or plain, local or remote.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use zstn_core::catalog::FileCatalog;
use zstn_core::model::{self, Model};

use crate::delta::{check_chain, sources_of_base};
use crate::source::data_shard::DataShardSource;
use crate::source::{Input, Source};
use crate::{Engine, Error, Result, Tensor};

#[cfg(feature = "async")]
mod async_driver;
#[cfg(feature = "async")]
mod async_opening;
#[cfg(feature = "async")]
mod async_original;
#[cfg(feature = "async")]
mod async_reader;
#[cfg(feature = "async")]
mod async_selection;
mod band_cache;
mod bands;
mod bases;
mod batch;
mod decode;
mod external;
mod gguf_set;
mod indices;
mod one_file;
mod opening;
mod options;
mod original;
mod plan_rows;
mod rows;
mod selection;
pub(crate) mod state_machine;
mod statistics;

use band_cache::BandCache;
use external::Beside;
use state_machine::{Need, Opened};

#[cfg(feature = "async")]
pub use async_reader::AsyncReader;

pub use indices::Indices;
pub use options::ReaderOptions;
pub use rows::RowsPlan;
pub use selection::Selection;

/// How weights that are stored in several tensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum View {
    /// Weights in the formats of compressed-tensors are read dense, if a `config.json`
    /// next to the files states how they are stored.
    #[default]
    Dense,
    /// Every tensor is read as it is stored. The tensors of a file that was packed from
    /// a format other than safetensors are then the entries of its virtual header, which
    /// fill that file (docs/formats/zstn-virtual-header.md 2). A GGUF file that is named
    /// is opened by itself, even if it is the first of several.
    Stored,
}

impl View {
    /// Returns the catalogs with the tensors that this view has.
    fn of(self, catalogs: Vec<FileCatalog>) -> Vec<FileCatalog> {
        match self {
            Self::Dense => catalogs,
            Self::Stored => catalogs.into_iter().map(FileCatalog::entries).collect(),
        }
    }
}

/// An opened model. Opening reads the head, header and index of each file; after that,
/// each tensor takes one read of its stored bytes, or one read per part for a weight
/// that is stored in several parts. Files on servers are opened at the same time, and
/// the parts of a tensor are read at the same time.
///
/// A delta (`Z4DM`) lists its own tensors; reading them requires its base, given by
/// [`ReaderOptions::base`]. Each tensor then takes one read of its record in the delta
/// and one read of the base's tensor that it depends on. The base may be plain, packed,
/// or a delta with a base of its own.
///
/// A clone is another handle to the same open files. Several threads may read from one
/// reader, or from its clones, at the same time.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = br#"{"w":{"dtype":"I16","shape":[2,2],"data_offsets":[0,8]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write(&path, [&len[..], header, &[1, 0, 2, 0, 3, 0, 4, 0]].concat())?;
/// use zstn::Reader;
///
/// let reader = Reader::open(&path)?;
/// for tensor in reader.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// let tensor = reader.read("w")?;
/// assert_eq!(tensor.to_vec::<i16>()?, [1, 2, 3, 4]);
/// let rows = reader.read_rows("w", 1..2)?;
/// assert_eq!(rows.shape, [1, 2]);
/// assert_eq!(rows.to_vec::<i16>()?, [3, 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Reader {
    files: Arc<Files>,
    /// Includes the properties of the base's tensors once a base is attached.
    model: Arc<Model>,
    engine: Engine,
    base: Option<Arc<Self>>,
    /// The parts of tensors that were decoded last, for [`Reader::read_selection`].
    bands: Arc<BandCache>,
}

/// The files of an opened model, which all its handles share.
struct Files {
    name: String,
    sources: Vec<Box<dyn Source>>,
    /// Those sources that a zTensor file lists.
    data_shards: Vec<Arc<DataShardSource>>,
    /// The reader of the packed file, if the first source is the file that it restores.
    packed: Option<Reader>,
    /// The checkpoints that the files are computed from.
    merged: Vec<Reader>,
    beside: Beside,
}

impl Reader {
    /// Opens a file of any supported format, the index of a sharded checkpoint, the
    /// first of several GGUF files of a model, or a local folder that contains a model
    /// (docs/formats/sharded.md and gguf.md 6). The input is a
    /// path, a [`Location`](crate::Location) or another [`Input`]. [`Reader::options`]
    /// offers more choices.
    ///
    /// # Errors
    /// An input that is refused or cannot be read.
    pub fn open(input: impl Into<Input>) -> Result<Self> {
        Self::options().open(input)
    }

    /// Returns the default options, which [`Reader::open`] uses, for modification.
    pub fn options() -> ReaderOptions {
        ReaderOptions::default()
    }

    /// Attaches the base of a delta. The engine of this reader also decodes the base's
    /// tensors. A base is refused if its names, lengths and dtypes do not match; a
    /// tensor with other bytes is only detected when it is read
    /// (docs/formats/zstn-delta.md 4).
    ///
    /// If the delta restores a file of another format than safetensors, the result is a
    /// reader of that file, like [`Reader::original`].
    ///
    /// # Errors
    /// A model that takes no base; a base that does not match; the errors of reading.
    pub fn with_base(self, base: Self) -> Result<Self> {
        self.with_bases(vec![base])
    }

    /// Attaches all checkpoints that a merged model was packed against, in the order in
    /// which they were named then (docs/formats/zstn-delta.md 9). A source that is a delta
    /// has its own base attached. A list with one base is the same as
    /// [`with_base`](Self::with_base).
    ///
    /// # Errors
    /// More or fewer bases than the delta was packed against; more than
    /// four files in total; the errors of `with_base`.
    pub fn with_bases(self, bases: Vec<Self>) -> Result<Self> {
        check_takes_base(&self)?;
        let expected = sources_of_base(&self.model);
        if bases.len() != expected {
            return Err(Error::Usage(format!(
                "{} was packed against {expected} checkpoints, not {}; pass them all, in the \
                 order in which they were named then",
                self.name(),
                bases.len()
            )));
        }
        let names: Vec<&str> = bases.iter().flat_map(Self::files_of_all).collect();
        check_chain(&names)?;
        self.attach_bases(bases)?.with_all_tensors()
    }

    /// Returns the names of the files or indices of this checkpoint and of its bases.
    fn files_of_all(&self) -> Vec<&str> {
        let own = match self.merged_from() {
            [] => vec![self.name()],
            sources => sources.iter().flat_map(Self::files_of_all).collect(),
        };
        let of_base = self.base().map(Self::files_of_all).unwrap_or_default();
        [own, of_base].concat()
    }

    /// Attaches the base of a delta, whose tensors remain the stored ones.
    fn attach_base(mut self, base: Self) -> Result<Self> {
        check_takes_base(&self)?;
        let bases = iter::successors(Some(&base), |base| base.base());
        check_chain(&bases.map(Self::name).collect::<Vec<_>>())?;
        let base = base.into_base_of(&self.model)?;
        Arc::make_mut(&mut self.model)
            .attach_base(&base.model)
            .map_err(Error::place(&self.files.name))?;
        self.base = Some(Arc::new(base));
        self.bands = Arc::default();
        Ok(self)
    }

    /// Returns a handle to the same open files that decodes with `engine`. A forked
    /// child process needs this, because the threads of its parent's engine do not
    /// exist in the child; nor does it share the parent's cache, whose lock a thread of
    /// the parent may have held at the time of the fork.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self.bands = Arc::default();
        self
    }

    /// Returns the base of a delta, if one was given.
    #[must_use]
    pub fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// Returns the checkpoints that this base of a delta is computed from
    /// (docs/formats/zstn-delta.md 9); none of a model that is not computed.
    #[must_use]
    pub fn merged_from(&self) -> &[Self] {
        &self.files.merged
    }

    /// Returns the engine that decodes the tensors.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the model: its tensors, its files and its metadata.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the path or address that the model was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Returns the sources of the model's files, in the order of the file numbers.
    #[must_use]
    pub fn sources(&self) -> &[Box<dyn Source>] {
        &self.files.sources
    }

    /// Returns the sources that a zTensor file lists as its shards.
    pub(crate) fn data_shards(&self) -> &[Arc<DataShardSource>] {
        &self.files.data_shards
    }

    /// Returns the names of all tensors, file by file, and within a file in the order
    /// of its index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.model.tensors().iter().map(|t| t.name.as_str())
    }

    /// Returns the sources of this model, then the sources of its base and of each
    /// further base.
    pub fn all_sources(&self) -> impl Iterator<Item = &dyn Source> {
        let readers = iter::successors(Some(self), |reader| reader.base());
        let sources = readers.flat_map(|reader| reader.sources());
        sources.map(|source| &**source)
    }

    /// Returns the name, dtype, shape and stored parts of every tensor, in the order of
    /// [`Reader::names`].
    #[must_use]
    pub fn tensors(&self) -> &[model::TensorInfo] {
        self.model.tensors()
    }

    /// Returns the `__metadata__` of the safetensors headers. For a file that was packed
    /// from another format, use [`Reader::original_metadata`].
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.model.metadata()
    }

    /// Returns the entry of the tensor called `name` in the model's index.
    pub fn find(&self, name: &str) -> Result<&model::TensorInfo> {
        Ok(&self.model.tensors()[self.number(name)?])
    }

    /// Returns the source of the file that `need` refers to.
    fn needed(&self, need: &Need) -> &dyn Source {
        let reader = self.at_level(need.level).unwrap_or(self);
        &*reader.sources()[need.file]
    }

    /// Reads the tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let number = self.number(name)?;
        let bytes = self.decode(&self.engine, number)?;
        let entry = &self.tensors()[number];
        Ok(tensor(entry, &entry.shape, bytes))
    }

    /// Reads the bytes of the tensor called `name` into `out`, whose length must be
    /// exactly the [`model::TensorInfo::len_bytes`] of [`Reader::find`]. Plain tensors and
    /// the tensors of ZSTN files are read or decoded in place; others are copied.
    ///
    /// # Errors
    /// The errors of [`Reader::read`]. If `out` has another length, nothing is read and
    /// the error has the kind [`InvalidInput`](zstn_core::ErrorKind::InvalidInput). After any
    /// other error, the contents of `out` are unspecified.
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

    /// Refuses a buffer that does not have the exact length of the tensor with this
    /// number.
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

impl Opened for Reader {
    fn name(&self) -> &str {
        self.name()
    }

    fn model(&self) -> &Model {
        self.model()
    }

    fn base(&self) -> Option<&Self> {
        self.base()
    }

    fn check_unchanged(&self, file: usize) -> Result<()> {
        self.sources()[file].check_unchanged()
    }

    fn other_version(&self, file: usize) -> Option<Error> {
        self.sources()[file].other_version()
    }
}

fn check_takes_base(opened: &impl Opened) -> Result<()> {
    if opened.model().needs_base() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is not a delta, so it takes no base; leave the base out",
        opened.name()
    )))
}

/// Returns the tensor with this entry in the index, or rows of it.
fn tensor(entry: &model::TensorInfo, shape: &[u64], bytes: Vec<u8>) -> Tensor {
    Tensor {
        name: entry.name.clone(),
        dtype: entry.dtype,
        shape: shape.to_vec(),
        bytes,
    }
}
