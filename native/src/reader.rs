//! Single tensors out of a model, packed or plain, local or remote.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use zstn_core::ErrorKind;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::dtype::Dtype;
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::{Model, ModelBuilder, Rows, wants_config};

use crate::shards::{READABLE, Shards};
use crate::source::{Place, Source};
use crate::{Error, Native, Result, suggest};

/// The description of a model, beside its files.
const CONFIG: &str = "config.json";

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

/// Whether weights that are stored in parts are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Weights in the formats of compressed-tensors are read dense, if a
    /// `config.json` beside the files says how they are stored.
    #[default]
    Dense,
    /// Every tensor is as it is stored.
    Stored,
}

/// An opened model. Opening reads head, header and index of each of its
/// files; after that each tensor costs one read of its stored bytes, or one
/// per part for a weight that is stored in several.
///
/// A delta (`Z4DM`) lists its tensors by itself; reading them takes its base
/// as well, given by [`Reader::with_base`]. A tensor then costs a read of
/// what the delta stores of it and one of the base's tensor of that name. The
/// base may be plain, packed, or a delta with a base of its own.
pub struct Reader {
    name: String,
    sources: Vec<Box<dyn Source>>,
    model: Model,
    engine: Native,
    base: Option<Box<Reader>>,
}

impl Reader {
    /// Opens a path or an http(s) address: a file of any kind, the index of a
    /// sharded checkpoint, or a local folder that holds a model
    /// (docs/formats/sharded.md).
    pub fn open(place: &str) -> Result<Self> {
        Self::from_place(&Place::from(place), View::default(), Native::new(0)?)
    }

    /// As [`Reader::open`], with a choice of what is read.
    pub fn from_place(place: &Place, view: View, engine: Native) -> Result<Self> {
        let shards = Shards::open(place, &READABLE)?;
        let (sources, beside) = match &shards {
            None => (vec![place.open()?], place),
            Some(shards) => {
                let files = shards.files();
                let sources = files.iter().map(|file| file.open());
                let first = files.first().map_or(place, |file| &file.place);
                (sources.collect::<Result<_>>()?, first)
            }
        };
        let config = |files: &[FileCatalog]| match view {
            View::Dense if wants_config(files) => beside
                .beside(CONFIG)
                .map_or(Ok(None), |config| config.small(HEADER_LEN_BYTES)),
            _ => Ok(None),
        };
        let index = shards.as_ref().and_then(Shards::index);
        let shards = index.map(|index| &index.parsed);
        Self::assemble(place.to_string(), sources, shards, config, engine)
    }

    /// Opens any source, a file of which every tensor is as it is stored.
    pub fn from_source(source: Box<dyn Source>, engine: Native) -> Result<Self> {
        let name = source.name().to_owned();
        Self::assemble(name, vec![source], None, |_| Ok(None), engine)
    }

    fn assemble(
        name: String,
        sources: Vec<Box<dyn Source>>,
        shards: Option<&ShardIndex>,
        config: impl FnOnce(&[FileCatalog]) -> Result<Option<Vec<u8>>>,
        engine: Native,
    ) -> Result<Self> {
        let refuse = |error| Error::place(&name)(error);
        let catalogs = sources
            .iter()
            .map(|source| open_catalog(&engine, &**source));
        let catalogs = catalogs.collect::<Result<Vec<_>>>()?;
        let config = config(&catalogs)?;
        let mut assembly =
            ModelBuilder::new(catalogs, shards, config.as_deref()).map_err(&refuse)?;
        for (file, range) in assembly.needs() {
            let bytes = sources[file].read(range.clone())?;
            assembly.supply(file, range.start, &bytes);
        }
        let model = assembly.finish(&engine).map_err(&refuse)?;
        Ok(Self {
            name,
            sources,
            model,
            engine,
            base: None,
        })
    }

    /// Adds the base of a delta. A base that does not fit is refused as far
    /// as names, lengths and dtypes show it; other bytes in one of its
    /// tensors are found when that is read (docs/formats/zstn-delta.md 4).
    pub fn with_base(mut self, base: Self) -> Result<Self> {
        if !self.model.needs_base() {
            return Err(Error::Usage(format!(
                "{} is no difference from another checkpoint and takes no base",
                self.name
            )));
        }
        self.model
            .check_base(&base.model)
            .map_err(Error::place(&self.name))?;
        self.base = Some(Box::new(base));
        Ok(self)
    }

    /// The base of a delta, if it has been given.
    #[must_use]
    pub fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// What the model holds.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Path or address it was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its files come from, in the order of their numbers.
    #[must_use]
    pub fn sources(&self) -> &[Box<dyn Source>] {
        &self.sources
    }

    /// Names of all tensors, file by file and there in the order of the index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.model.tensors().iter().map(|t| t.name.as_str())
    }

    /// Name, dtype, shape and place of every tensor, in the same order.
    #[must_use]
    pub fn header(&self) -> &[zstn_core::model::Tensor] {
        self.model.tensors()
    }

    /// `__metadata__` of the safetensors headers.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.model.metadata()
    }

    /// What is known of the tensor called `name` before it is read.
    pub fn find(&self, name: &str) -> Result<&zstn_core::model::Tensor> {
        Ok(&self.model.tensors()[self.number(name)?])
    }

    /// The number of the tensor called `name`; the error suggests names that
    /// are much like it.
    fn number(&self, name: &str) -> Result<usize> {
        self.model.find(name).map_err(|error| {
            let error = match error.kind() {
                ErrorKind::NotFound => error.hint(&suggest::hint(name, self.names())),
                _ => error,
            };
            Error::place(&self.name)(error)
        })
    }

    /// Bytes that the tensor called `name` takes in its files.
    pub fn frame_size(&self, name: &str) -> Result<u64> {
        Ok(self.find(name)?.stored_len_bytes())
    }

    /// Reads the bytes of the tensor called `name`.
    pub fn read_raw(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.read(name)?.bytes)
    }

    /// Reads the `rows` of the tensor called `name`, slices of its outermost
    /// dimension. Fetches no more than the blocks that hold them, where the
    /// tensor is stored so.
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Tensor> {
        self.read_planned(&self.plan_rows(name, rows)?)
    }

    /// What has to be fetched for `rows` of the tensor called `name`. Reads
    /// the tensor's block table if that did not come with the index.
    pub fn plan_rows(&self, name: &str, rows: Range<u64>) -> Result<Rows> {
        let refuse = Error::place(&self.name);
        let number = self.number(name)?;
        let table = self.model.block_table(number);
        let table = table.map(|(file, range)| self.sources[file].read(range));
        let table = table.transpose()?;
        self.model
            .rows(number, rows, table.as_deref())
            .map_err(&refuse)
    }

    /// Reads what [`Reader::plan_rows`] has planned.
    pub fn read_planned(&self, rows: &Rows) -> Result<Tensor> {
        let tensor = self.find(rows.name())?;
        let bytes = if rows.is_whole() {
            let mut bytes = self.read(rows.name())?.bytes;
            let span = rows.span();
            bytes.truncate(zstn_core::bytes::index(span.end));
            bytes.drain(..zstn_core::bytes::index(span.start));
            bytes
        } else {
            let ranges = rows.ranges();
            let fetched = ranges.map(|(file, range)| self.sources[file].read(range));
            let fetched = fetched.collect::<Result<Vec<_>>>()?;
            let fetched: Vec<&[u8]> = fetched.iter().map(|bytes| &**bytes).collect();
            let bytes = rows
                .decode(&self.engine, &fetched)
                .map_err(Error::place(&self.name));
            self.check_unchanged(rows.ranges().map(|(file, _)| file))?;
            bytes?
        };
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: rows.shape().to_vec(),
            bytes,
        })
    }

    /// Reads the tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let refuse = Error::place(&self.name);
        let number = self.number(name)?;
        let tensor = &self.model.tensors()[number];
        let base = match (tensor.base, &self.base) {
            (None, _) => None,
            (Some(_), Some(base)) => Some(base.read(name)?.bytes),
            (Some(_), None) => {
                return Err(Error::Usage(format!(
                    "{} is a difference from another checkpoint, and `{name}` is needed from that \
                     one: name it with --base",
                    self.name
                )));
            }
        };
        let stored = tensor
            .parts
            .iter()
            .map(|part| match part.stored.is_empty() {
                true => Ok(Cow::Borrowed(&[][..])),
                false => self.sources[part.file].read(part.stored.clone()),
            });
        let stored = stored.collect::<Result<Vec<_>>>()?;
        let parts: Vec<&[u8]> = stored.iter().map(|part| &**part).collect();
        let bytes = self
            .model
            .decode(&self.engine, number, &parts, base.as_deref())
            .map_err(&refuse)
            .map(Cow::into_owned);
        self.check_unchanged(tensor.parts.iter().map(|part| part.file))?;
        let bytes = bytes?;
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes,
        })
    }
}

impl Reader {
    /// Refuses what was read if somebody wrote to one of these files since it
    /// was opened: bytes of two versions may have met.
    fn check_unchanged(&self, mut files: impl Iterator<Item = usize>) -> Result<()> {
        files.try_for_each(|file| self.sources[file].check_unchanged())
    }
}

/// The catalog of a file, by way of the reads it needs.
pub(crate) fn open_catalog(engine: &Native, source: &dyn Source) -> Result<FileCatalog> {
    let refuse = Error::place(source.name());
    let len = source.len_bytes();
    let head = source
        .read(0..FileOpener::head_len_bytes(len))?
        .into_owned();
    let mut opening = FileOpener::new(len, head).map_err(&refuse)?;
    loop {
        let needs = opening.needs().map_err(&refuse)?;
        if needs.is_empty() {
            return opening.finish(engine).map_err(&refuse);
        }
        for range in needs {
            let bytes = source.read(range.clone())?;
            opening.supply(range.start, &bytes).map_err(&refuse)?;
        }
    }
}
