//! How a model is opened.

use std::sync::Arc;

use zstn_core::catalog::{FileCatalog, Kind};
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::wants_config;

use super::opening::open_model;
use super::{Files, Reader, View};
use crate::shards::Shards;
use crate::source::{CONFIG, HttpOptions, Input};
use crate::{Engine, Result};

/// How a [`Reader`] opens a model; made by [`Reader::options`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let [plain, packed] = ["model.safetensors", "model.zstn"].map(|name| folder.path().join(name));
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write(&plain, [&len[..], header, &[1, 2, 3]].concat())?;
/// use zstn::{Engine, PackOptions, Reader, View};
///
/// let engine = Engine::new(2)?;
/// zstn::pack(&engine, &plain, &packed, &PackOptions::default())?;
///
/// // However many models are opened, they are decoded by the same two threads.
/// let options = Reader::options().engine(&engine).view(View::Stored);
/// for path in [&plain, &packed] {
///     assert_eq!(options.open(path)?.read("x")?.bytes, [1, 2, 3]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ReaderOptions {
    engine: Option<Engine>,
    bases: Vec<Input>,
    view: View,
    http: HttpOptions,
}

impl ReaderOptions {
    /// Decodes with `engine`. By default that is the engine of the process,
    /// [`Engine::default`].
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Opens a delta that was packed against `base`. Where the base is a delta,
    /// the next call adds the base of that one, and so on. A base that does not
    /// fit is refused, and so is a base for a file that needs none: see
    /// [`Reader::with_base`], which takes a base that is open already.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Selects what is read of weights that are stored in parts; by default
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets time limits and retries for http(s) addresses.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Opens a model. Its `config.json` is looked for next to a path or an
    /// address; the tensors of a [`Source`](crate::source::Source) are as they are stored.
    ///
    /// # Errors
    /// An input that is refused or cannot be read, and a base that does not fit.
    pub fn open(&self, input: impl Into<Input>) -> Result<Reader> {
        let reader = self.open_alone(&input.into())?;
        if self.bases.is_empty() {
            return Ok(reader);
        }
        reader.check_takes_base()?;
        let stored = self.clone().engine(reader.engine()).view(View::Stored);
        let mut base: Option<Reader> = None;
        for input in self.bases.iter().rev() {
            let opened = stored.open_alone(input)?;
            base = Some(match base {
                None => opened,
                Some(further) => opened.with_base(further)?,
            });
        }
        match base {
            None => Ok(reader),
            Some(base) => reader.with_base(base),
        }
    }

    /// Opens a model without its base.
    fn open_alone(&self, input: &Input) -> Result<Reader> {
        let engine = self.engine.clone().unwrap_or_default();
        let name = input.to_string();
        let location = input.location();
        let shards = location.map(|location| Shards::open(location, Kind::FILES, &self.http));
        let shards = shards.transpose()?.flatten();
        let (sources, first) = match &shards {
            None => (vec![input.open(&self.http)?], location),
            Some(shards) => {
                let files = shards.files();
                let sources = files.iter().map(|file| file.open(&self.http));
                let first = files.first().map(|file| &file.location);
                (sources.collect::<Result<_>>()?, first)
            }
        };
        let config = |files: &[FileCatalog]| match self.view {
            View::Dense if wants_config(files) => {
                let config = first.and_then(|first| first.sibling(CONFIG));
                let read = config.map(|config| config.read_small(&self.http, HEADER_LEN_BYTES));
                Ok(read.transpose()?.flatten())
            }
            _ => Ok(None),
        };
        let index = shards.as_ref().and_then(Shards::index);
        let index = index.map(|index| &index.parsed);
        let model = open_model(&engine, &name, &sources, index, config)?;
        Ok(Reader {
            files: Arc::new(Files {
                name,
                sources,
                model,
            }),
            engine,
            base: None,
        })
    }
}
