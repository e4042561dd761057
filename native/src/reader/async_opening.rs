//! Opens models for reading without blocking a thread.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use zstn_core::catalog::{FileCatalog, FileKind};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::wants_config;

use super::async_driver::run;
use super::async_reader::{AsyncReader, Files};
use super::bases::attach_all;
use super::external::{self, Beside, Found, FoundFiles, PackedFiles};
use super::opening::{self, OpenModel};
use super::options::MAX_OPEN_FILES;
use super::{ReaderOptions, View, check_takes_base, gguf_set};
use crate::catalog::{self, OpenFile};
use crate::delta::check_chain;
use crate::shards::{Shard, Shards, is_absent};
use crate::source::parallel::FILES_AT_ONCE;
use crate::source::{
    AsyncSource, BlockingSource, CONFIG, ClosedFile, Input, Location, Source, data_shard, if_any,
    on_thread,
};
use crate::{Engine, Error, Result};

impl ReaderOptions {
    /// Opens a model for reading without blocking a thread. The model's `config.json`
    /// is read from the folder of the path or address, if it exists there.
    ///
    /// # Errors
    /// An input that is refused or cannot be read; a base that does not match.
    pub async fn open_async(&self, input: impl Into<Input>) -> Result<AsyncReader> {
        let input = input.into();
        check_chain(&self.bases)?;
        let engine = self.engine.clone().unwrap_or_default();
        let reader = self.open_files(&engine, &input).await?;
        self.add_bases(&engine, reader, self.view).await
    }

    /// Opens a model that consists of one file. The tensors are read as they are stored.
    ///
    /// # Errors
    /// A file that is refused or cannot be read; a base that does not match.
    pub async fn open_async_source(
        &self,
        source: impl AsyncSource + 'static,
    ) -> Result<AsyncReader> {
        check_chain(&self.bases)?;
        let engine = self.engine.clone().unwrap_or_default();
        let name = source.name().to_owned();
        let opened = vec![open_file(&engine, Arc::new(source)).await?];
        let stored = self.clone().view(View::Stored);
        let reader = stored.open_opened(&engine, name, opened, None, &[]).await?;
        self.add_bases(&engine, reader, View::Stored).await
    }

    /// Opens the bases and adds them to `reader`, which has none yet.
    async fn add_bases(
        &self,
        engine: &Engine,
        reader: AsyncReader,
        view: View,
    ) -> Result<AsyncReader> {
        if self.bases.is_empty() {
            return Ok(reader);
        }
        check_takes_base(&reader)?;
        let stored = self.clone().view(View::Stored);
        match stored.with_opened_bases(engine, reader.clone(), view).await {
            Err(error) if error.refusal().is_some() && !self.only.is_empty() => {
                // The delta may have been made against all files of its base together.
                let all = Self {
                    only: Vec::new(),
                    ..stored
                };
                all.with_opened_bases(engine, reader, view).await
            }
            attached => attached,
        }
    }

    /// Opens the bases with these options, and adds them to `reader`.
    async fn with_opened_bases(
        &self,
        engine: &Engine,
        reader: AsyncReader,
        view: View,
    ) -> Result<AsyncReader> {
        let bases = self.bases.iter();
        let opened: Vec<_> = bases.map(|base| self.open_files(engine, base)).collect();
        let opened = stream::iter(opened).buffered(FILES_AT_ONCE);
        let opened: Vec<Result<_>> = opened.collect().await;
        let attached = attach_all(reader, opened, |delta, bases, _| delta.attach_bases(bases))?;
        match view {
            View::Dense => attached.with_all_tensors().await,
            View::Stored => Ok(attached),
        }
    }

    /// Opens a model without its base.
    async fn open_files(&self, engine: &Engine, input: &Input) -> Result<AsyncReader> {
        let shards = match input.location() {
            Some(location) => self.open_shards(location).await?,
            None => None,
        };
        let index = shards.as_ref().and_then(Shards::index);
        let index = index.map(|index| &index.parsed);
        let chosen = index.map(|index| self.chosen(index)).transpose()?.flatten();
        let index = chosen.as_ref().or(index);
        let (mut opened, mut locations) = match &shards {
            None => {
                let source = input.open_async(&self.http).await?;
                let opened = vec![open_file(engine, source).await?];
                (opened, vec![input.location().cloned()])
            }
            Some(shards) => {
                let all = shards.files().iter();
                let wanted = all.filter(|file| {
                    let mut wanted = chosen.iter().flat_map(ShardIndex::files);
                    chosen.is_none() || wanted.any(|name| *name == file.name)
                });
                let wanted: Vec<&Shard> = wanted.collect();
                let locations = wanted.iter().map(|file| Some(file.location.clone()));
                let locations: Vec<_> = locations.collect();
                let count = wanted.len();
                (self.open_all(engine, wanted, count).await?, locations)
            }
        };
        if let (None, [(source, catalog)], [Some(first)]) = (index, &opened[..], &locations[..])
            && self.opens_several_gguf_files(shards.is_some())
        {
            let files = gguf_set::files(first, source.pinned_location(), catalog);
            let others: Vec<&Shard> = files.iter().skip(1).collect();
            let found = others.iter().map(|file| Some(file.location.clone()));
            locations.extend(found.collect::<Vec<_>>());
            opened.extend(self.open_all(engine, others, files.len()).await?);
            let catalogs = opened.iter().map(|(_, catalog)| catalog);
            gguf_set::check(&files, catalogs)?;
        }
        self.open_opened(engine, input.to_string(), opened, index, &locations)
            .await
    }

    /// Opens files of a model in `count` files at the same time.
    async fn open_all(
        &self,
        engine: &Engine,
        files: Vec<&Shard>,
        count: usize,
    ) -> Result<Vec<OpenedFile>> {
        for file in &files {
            file.check_there()?;
        }
        let opened = files.into_iter().map(|file| async move {
            let source: Arc<dyn AsyncSource> = match &file.location {
                Location::Path(path) if count > MAX_OPEN_FILES => {
                    let path = path.clone();
                    let file = on_thread(move || ClosedFile::open(&path)).await?;
                    Arc::new(BlockingSource::new(file))
                }
                location => match (location.open_async(&self.http).await, file.packed()) {
                    (Err(error), Some(packed)) if is_absent(&error) => {
                        let opened = packed.open_async(&self.http).await;
                        opened.map_err(|other| match is_absent(&other) {
                            true => error,
                            false => other,
                        })?
                    }
                    (opened, _) => opened?,
                },
            };
            open_file(engine, source).await
        });
        let opened: Vec<_> = opened.collect();
        let opened = stream::iter(opened).buffered(FILES_AT_ONCE);
        opened.try_collect().await
    }

    /// Opens the other files of ONNX models at the `locations`, and returns them with
    /// their catalogs.
    async fn open_external_async(
        &self,
        engine: &Engine,
        catalogs: &mut [FileCatalog],
        locations: &[Option<Location>],
    ) -> Result<FoundFiles<Arc<dyn AsyncSource>>> {
        let files = external::find(catalogs, locations);
        let count = files.len();
        let opened = files.iter().map(|file| async move {
            let opened = match &file.location {
                Err(_) => Err(external::without_location()),
                Ok(Location::Path(path)) if count > MAX_OPEN_FILES => {
                    let path = path.clone();
                    let file = on_thread(move || ClosedFile::open(&path)).await;
                    file.map(|file| Arc::new(BlockingSource::new(file)) as Arc<dyn AsyncSource>)
                }
                Ok(location) => location.open_async(&self.http).await,
            };
            match opened {
                Ok(source) => {
                    let len_bytes = source.len_bytes();
                    Ok(Found::plain(source, len_bytes))
                }
                Err(error) => {
                    let (file, engine, http) = (file.clone(), engine.clone(), self.http.clone());
                    let open = move || file.open_packed(&engine, &http, count, error);
                    let found = on_thread(open).await?;
                    Ok(found.map(|source| {
                        let source: Arc<dyn Source> = source.into();
                        Arc::new(BlockingSource::from(source)) as Arc<dyn AsyncSource>
                    }))
                }
            }
        });
        let opened: Vec<_> = opened.collect();
        let opened: Vec<_> = stream::iter(opened).buffered(FILES_AT_ONCE).collect().await;
        external::catalogs(catalogs, &files, opened)
    }

    async fn open_shards(&self, location: &Location) -> Result<Option<Shards>> {
        match location.file_name() {
            Some(name) if location.is_remote() && location.is_index() => {
                let read = location.read_small_async(&self.http, HEADER_LEN_BYTES);
                let (text, version) = read.await?;
                Shards::parse(location, name, text, version).map(Some)
            }
            _ => {
                let (location, http) = (location.clone(), self.http.clone());
                on_thread(move || Shards::open(&location, FileKind::FILES, &http)).await
            }
        }
    }

    /// Opens the model that consists of `files` at `locations`.
    async fn open_opened(
        &self,
        engine: &Engine,
        name: String,
        files: Vec<OpenedFile>,
        index: Option<&ShardIndex>,
        locations: &[Option<Location>],
    ) -> Result<AsyncReader> {
        let (mut sources, mut catalogs): (Vec<Arc<dyn AsyncSource>>, Vec<_>) =
            files.into_iter().unzip();
        let pinned = sources.iter().map(|source| source.pinned_location());
        let locations: Vec<_> = pinned
            .zip(locations)
            .map(|(pinned, location)| pinned.or_else(|| location.clone()))
            .collect();
        let found = self.open_external_async(engine, &mut catalogs, &locations);
        let packed = PackedFiles::add(found.await?, &mut sources, &mut catalogs);
        let beside = Beside {
            location: locations.first().cloned().flatten(),
            http: self.http.clone(),
        };
        let place = |number: usize| locations.get(number).cloned().flatten();
        let data_shards = data_shard::append(&mut catalogs, place, &self.http);
        sources.extend(data_shards.into_iter().map(|shard| {
            let blocking: Arc<dyn Source> = shard;
            Arc::new(BlockingSource::from(blocking)) as Arc<dyn AsyncSource>
        }));
        let catalogs = self.view.of(catalogs);
        let config = match self.view {
            View::Dense if wants_config(&catalogs) => {
                let pinned = sources.first().and_then(|source| source.pinned_location());
                let first = || locations.first().cloned().flatten();
                let config = pinned.or_else(first).and_then(|file| file.sibling(CONFIG));
                match config {
                    Some(config) => {
                        if_any(config.read_small_async(&self.http, HEADER_LEN_BYTES).await)?
                    }
                    None => None,
                }
            }
            _ => None,
        };
        let work = OpenModel::new(&name, catalogs, index, config.as_deref(), self.verify)?;
        let opened = run(work, engine, &|need| Arc::clone(&sources[need.file])).await?;
        let mut changes = sources.iter().filter_map(|source| source.other_version());
        let mut model = opening::of_one_version(opened, changes.next())?;
        drop(changes);
        let shares = packed.set_stored_shares(&mut model);
        shares.map_err(Error::place(&name))?;
        let files = Files {
            name,
            sources,
            beside,
        };
        let reader = AsyncReader::new(files, model, engine);
        match self.view {
            View::Dense => reader.with_all_tensors().await,
            View::Stored => Ok(reader),
        }
    }
}

/// A file with its catalog.
type OpenedFile = (Arc<dyn AsyncSource>, FileCatalog);

/// Reads the catalog of a file.
async fn open_file(engine: &Engine, source: Arc<dyn AsyncSource>) -> Result<OpenedFile> {
    let work = OpenFile::new(source.name(), source.len_bytes());
    let opened = run(work, engine, &|_| Arc::clone(&source)).await;
    let catalog = catalog::of_one_version(opened, source.other_version())?;
    Ok((source, catalog))
}
