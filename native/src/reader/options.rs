//! Options for opening a model.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use zstn_core::catalog::FileKind;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::{Verify, wants_config};

use super::bases::attach_all;
use super::external::{self, Beside, PackedFiles};
use super::opening::{OpenModel, of_one_version};
use super::{Files, Reader, View, check_takes_base};
use super::{gguf_set, state_machine};
use crate::catalog::open_catalog;
use crate::delta::check_chain;
use crate::shards::{Shard, Shards};
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{CONFIG, HttpOptions, Input, Source, data_shard};
use crate::{Engine, Error, Result};

/// The maximum number of files of a checkpoint that are kept open. Many systems allow a
/// process only 256 open files.
pub(super) const MAX_OPEN_FILES: usize = 64;

/// Options for opening a [`Reader`], from [`Reader::options`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let [plain, packed] = ["model.safetensors", "model.zstn"].map(|name| folder.path().join(name));
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write(&plain, [&len[..], header, &[1, 2, 3]].concat())?;
/// use zstn::{Engine, Job, PackOptions, Reader, View};
///
/// let engine = Engine::new(2)?;
/// let job = Job::new().engine(&engine);
/// zstn::pack(&job, &plain, &packed, &PackOptions::default())?;
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
    pub(super) engine: Option<Engine>,
    pub(super) bases: Vec<Input>,
    pub(super) view: View,
    pub(super) verify: Verify,
    pub(super) http: HttpOptions,
    /// The tensors whose files are opened; all files are opened if this is empty.
    pub(super) only: Vec<String>,
}

impl ReaderOptions {
    /// Sets the engine that decodes. The default is the engine of the process,
    /// [`Engine::default`].
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Opens a delta that was packed against `base`. If the base is a delta itself, the
    /// next call adds the base's own base, and so on. If the delta was packed against
    /// several bases, the next call adds the next one of them. A base that does not match is
    /// refused, and so is a base for a file that needs none; see [`Reader::with_base`],
    /// which accepts a base that is already open.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Selects the digests with which tensors of ZSTN files are compared when they are
    /// read; the default is [`Verify::Full`]. Bases are opened with the same setting.
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Sets time limits, retries and headers for requests to addresses: of the model,
    /// of its bases and of their other files.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Opens only the files that contain the tensor called `name`, if the model has an
    /// index that lists them; the next call adds another tensor. The reader then has
    /// only these tensors and the tensors in which they are stored. If the index does
    /// not list the name, all files are opened.
    ///
    /// With this option, a checkpoint on a server costs two requests, for its index and
    /// one shard, rather than one request for each shard.
    pub fn only(mut self, name: impl Into<String>) -> Self {
        self.only.push(name.into());
        self
    }

    /// Returns an index of the requested tensors only; `None` to open all files.
    pub(super) fn chosen(&self, index: &ShardIndex) -> Result<Option<ShardIndex>> {
        if self.only.is_empty() {
            return Ok(None);
        }
        let mut map = BTreeMap::new();
        for wanted in &self.only {
            let before = map.len();
            for (name, file) in index.weights() {
                // `x.weight_packed` and `x.weight_scale` are stored parts of
                // `x.weight`.
                let part = name.strip_prefix(wanted.as_str());
                if part.is_some_and(|part| part.is_empty() || part.starts_with('_')) {
                    map.insert(name, &index.files()[file]);
                }
            }
            if map.len() == before && !map.contains_key(wanted.as_str()) {
                return Ok(None);
            }
        }
        let text = serde_json::json!({ "weight_map": map }).to_string();
        ShardIndex::parse(text.as_bytes())
            .map(Some)
            .map_err(Error::Core)
    }

    /// Opens a model. The model's `config.json` is read from the folder of the path or
    /// address, if it exists there; the tensors of a [`Source`](crate::source::Source)
    /// are read as they are stored.
    ///
    /// # Errors
    /// An input that is refused or cannot be read; a base that does not match.
    pub fn open(&self, input: impl Into<Input>) -> Result<Reader> {
        check_chain(&self.bases)?;
        let engine = self.engine.clone().unwrap_or_default();
        let (input, stored) = (input.into(), self.clone().view(View::Stored));
        let inputs: Vec<_> = iter::once(&input).chain(&self.bases).collect();
        // Errors are examined afterwards: an error of a base must not hide that the
        // model takes no base.
        let at_once =
            parallel::at_once(inputs.iter().map(|input| input.is_remote()), FILES_AT_ONCE);
        let opened = parallel::run(inputs.len(), at_once, |number| {
            let options = if number == 0 { self } else { &stored };
            Ok(options.open_alone(&engine, inputs[number]))
        });
        let mut opened = opened?;
        let reader = opened.remove(0)?;
        if self.bases.is_empty() {
            return Ok(reader);
        }
        check_takes_base(&reader)?;
        match self.with_bases(reader.clone(), opened) {
            Err(error) if error.refusal().is_some() && !self.only.is_empty() => {
                // The delta may have been made against all files of its base together.
                let all = Self {
                    only: Vec::new(),
                    ..stored
                };
                let opened = parallel::run(self.bases.len(), at_once, |number| {
                    Ok(all.open_alone(&engine, &self.bases[number]))
                });
                self.with_bases(reader, opened?)
            }
            attached => attached,
        }
    }

    /// Attaches the opened bases ([`attach_all`]).
    fn with_bases(&self, reader: Reader, bases: Vec<Result<Reader>>) -> Result<Reader> {
        attach_all(reader, bases, |delta, bases, is_last| {
            let attached = delta.attach_bases(bases)?;
            match self.view {
                View::Dense if is_last => attached.with_all_tensors(),
                View::Dense | View::Stored => Ok(attached),
            }
        })
    }

    /// Opens a model without its base. Files on a server are opened at the same time.
    pub(super) fn open_alone(&self, engine: &Engine, input: &Input) -> Result<Reader> {
        let name = input.to_string();
        let location = input.location();
        let shards = location.map(|location| Shards::open(location, FileKind::FILES, &self.http));
        let shards = shards.transpose()?.flatten();
        let index = shards.as_ref().and_then(Shards::index);
        let index = index.map(|index| &index.parsed);
        let chosen = index.map(|index| self.chosen(index)).transpose()?.flatten();
        let files = shards.as_ref().map(|shards| {
            let all = shards.files().iter();
            all.filter(|file| {
                let mut wanted = chosen.iter().flat_map(ShardIndex::files);
                chosen.is_none() || wanted.any(|name| *name == file.name)
            })
            .collect::<Vec<_>>()
        });
        let files = files.as_deref();
        let index = chosen.as_ref().or(index);
        let first = match files {
            None => location,
            Some(files) => files.first().map(|file| &file.location),
        };
        let count = files.map_or(1, <[_]>::len);
        let at_once = if input.is_remote() { FILES_AT_ONCE } else { 1 };
        let opened = parallel::run(count, at_once, |number| {
            let source = match files {
                None => input.open(&self.http)?,
                Some(files) => self.open_shard(files[number], count)?,
            };
            let catalog = open_catalog(engine, &*source)?;
            Ok((source, catalog))
        });
        let (mut sources, mut catalogs): (Vec<Box<dyn Source>>, Vec<_>) =
            opened?.into_iter().unzip();
        let locations = (0..count).map(|number| match files {
            None => location.cloned(),
            Some(files) => Some(files[number].location.clone()),
        });
        let pinned = sources.iter().map(|source| source.pinned_location());
        let mut locations: Vec<_> = pinned
            .zip(locations)
            .map(|(one, two)| one.or(two))
            .collect();
        if let (None, Some(first), [source], [catalog]) =
            (index, first, &sources[..], &catalogs[..])
            && self.opens_several_gguf_files(shards.is_some())
        {
            let files = gguf_set::files(first, source.pinned_location(), catalog);
            let others = files.get(1..).unwrap_or_default();
            let opened = parallel::run(others.len(), at_once, |number| {
                let source = self.open_shard(&others[number], files.len())?;
                let catalog = open_catalog(engine, &*source)?;
                Ok((source, catalog))
            });
            for ((source, catalog), file) in opened?.into_iter().zip(others) {
                sources.push(source);
                catalogs.push(catalog);
                locations.push(Some(file.location.clone()));
            }
            gguf_set::check(&files, &catalogs)?;
        }
        let found = external::open(engine, &self.http, &mut catalogs, &locations)?;
        let packed = PackedFiles::add(found, &mut sources, &mut catalogs);
        let beside = Beside {
            location: locations.first().cloned().flatten(),
            http: self.http.clone(),
        };
        let place = |number: usize| locations.get(number).cloned().flatten();
        let data_shards = data_shard::append(&mut catalogs, place, &self.http);
        let boxed = data_shards
            .iter()
            .map(|shard| Box::new(Arc::clone(shard)) as Box<dyn Source>);
        sources.extend(boxed);
        let catalogs = self.view.of(catalogs);
        let config = match self.view {
            View::Dense if wants_config(&catalogs) => {
                let pinned = sources.first().and_then(|source| source.pinned_location());
                let config = pinned.as_ref().or(first);
                let config = config.and_then(|file| file.sibling(CONFIG));
                let read =
                    config.map(|config| config.read_small_if_any(&self.http, HEADER_LEN_BYTES));
                read.transpose()?.flatten()
            }
            _ => None,
        };
        let work = OpenModel::new(&name, catalogs, index, config.as_deref(), self.verify)?;
        let opened = state_machine::run(work, engine, |need| &*sources[need.file])?;
        let mut changes = sources.iter().filter_map(|source| source.other_version());
        let mut model = of_one_version(opened, changes.next())?;
        let shares = packed.set_stored_shares(&mut model);
        shares.map_err(Error::place(&name))?;
        let reader = Reader {
            files: Arc::new(Files {
                name,
                sources,
                data_shards,
                packed: None,
                merged: Vec::new(),
                beside,
            }),
            model: Arc::new(model),
            engine: engine.clone(),
            base: None,
            bands: Arc::default(),
        };
        match self.view {
            View::Dense => reader.with_all_tensors(),
            View::Stored => Ok(reader),
        }
    }

    /// Returns whether the other files of a model are opened if its first GGUF file is
    /// found in a folder (`is_in_folder`) or named.
    pub(super) fn opens_several_gguf_files(&self, is_in_folder: bool) -> bool {
        is_in_folder || self.view == View::Dense
    }

    /// Opens a file of a model in `count` files.
    fn open_shard(&self, file: &Shard, count: usize) -> Result<Box<dyn Source>> {
        match count > MAX_OPEN_FILES {
            true => file.open_closed(&self.http),
            false => file.open(&self.http),
        }
    }
}
