//! How a model is opened.

use std::sync::Arc;

use zstn_core::catalog::FileCatalog;
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::wants_config;

use super::opening::open_model;
use super::{Files, Reader, View};
use crate::shards::{READABLE, Shards};
use crate::source::{HttpOptions, Place, Source};
use crate::{Engine, Result};

/// The description of a model, next to its files.
const CONFIG: &str = "config.json";

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
    base: Option<Reader>,
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

    /// Opens a delta that was made against `base`. Other files are refused,
    /// and so is a base that does not fit: see [`Reader::with_base`].
    pub fn base(mut self, base: Reader) -> Self {
        self.base = Some(base);
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

    /// Opens a path or an http(s) address, as [`Reader::open`] does.
    pub fn open(&self, place: impl Into<Place>) -> Result<Reader> {
        self.open_place(&place.into())
    }

    fn open_place(&self, place: &Place) -> Result<Reader> {
        let shards = Shards::open_with(place, &READABLE, &self.http)?;
        let (sources, first) = match &shards {
            None => (vec![place.open_with(&self.http)?], place),
            Some(shards) => {
                let files = shards.files();
                let sources = files.iter().map(|file| file.open(&self.http));
                let first = files.first().map_or(place, |file| &file.place);
                (sources.collect::<Result<_>>()?, first)
            }
        };
        let config = |files: &[FileCatalog]| match self.view {
            View::Dense if wants_config(files) => match first.beside(CONFIG) {
                Some(config) => config.small_with(&self.http, HEADER_LEN_BYTES),
                None => Ok(None),
            },
            _ => Ok(None),
        };
        let index = shards.as_ref().and_then(Shards::index);
        let engine = self.engine.clone().unwrap_or_default();
        let name = place.to_string();
        let index = index.map(|index| &index.parsed);
        let model = open_model(&engine, &name, &sources, index, config)?;
        self.reader(
            engine,
            Files {
                name,
                sources,
                model,
            },
        )
    }

    /// Opens any source, a file of which every tensor is as it is stored.
    pub fn open_source(&self, source: Box<dyn Source>) -> Result<Reader> {
        let name = source.name().to_owned();
        let sources = vec![source];
        let engine = self.engine.clone().unwrap_or_default();
        let model = open_model(&engine, &name, &sources, None, |_| Ok(None))?;
        self.reader(
            engine,
            Files {
                name,
                sources,
                model,
            },
        )
    }

    fn reader(&self, engine: Engine, files: Files) -> Result<Reader> {
        let reader = Reader {
            files: Arc::new(files),
            engine,
            base: None,
        };
        match &self.base {
            Some(base) => reader.with_base(base.clone()),
            None => Ok(reader),
        }
    }
}
