//! Reads single tensors without blocking a thread.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use zstn_core::catalog::{FileCatalog, FileKind};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEADER_LEN_BYTES;
use zstn_core::model::{self, Model, wants_config};

use super::async_driver::run;
use super::decode::ReadTensor;
use super::external;
use super::gguf_set;
use super::opening::{self, OpenModel};
use super::options::MAX_OPEN_FILES;
use super::rows::{PlanRows, ReadRows, RowsPlan};
use super::state_machine::{Need, Opened, Work};
use super::{ReaderOptions, View, check_takes_base, tensor};
use crate::catalog::{self, OpenFile};
use crate::delta::check_chain;
use crate::shards::{Shard, Shards, is_absent};
use crate::source::parallel::FILES_AT_ONCE;
use crate::source::{
    AsyncSource, BlockingSource, CONFIG, ClosedFile, Input, Location, Reading, Source, data_shard,
    if_any, on_thread,
};
use crate::{Engine, Error, Result, Tensor};

/// The number of tensors that [`AsyncReader::stream`] reads at the same time.
const STREAMED_AT_ONCE: usize = 4;

/// An opened model that is read without blocking a thread. It supports the same files
/// and addresses as [`Reader`](crate::Reader), and any [`AsyncSource`].
///
/// The futures may be polled by any executor. Requests are sent by two threads that the
/// whole process shares; tensors are decoded by the threads of the [`Engine`]. Dropping a
/// future ends its requests. A clone is another handle to the same open files.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = br#"{"wte.weight":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write(&path, [&len[..], header, &[1, 2, 3, 4]].concat())?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use futures_util::TryStreamExt;
/// use zstn::AsyncReader;
///
/// let reader = AsyncReader::open(&path).await?; // or Location::url("https://…")
/// let row = reader.read_rows("wte.weight", 1..2).await?;
/// assert_eq!(row.bytes, [3, 4]);
///
/// let mut tensors = reader.stream(["wte.weight"]);
/// while let Some(tensor) = tensors.try_next().await? {
///     assert_eq!(tensor.bytes, [1, 2, 3, 4]);
/// }
/// # Ok::<(), zstn::Error>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncReader {
    files: Arc<Files>,
    /// Includes the properties of the base's tensors once a base is attached.
    model: Arc<Model>,
    engine: Engine,
    base: Option<Arc<Self>>,
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

struct Files {
    name: String,
    sources: Vec<Arc<dyn AsyncSource>>,
}

impl AsyncReader {
    /// Opens a file of any supported format, the index of a sharded checkpoint, or a
    /// local folder that contains a model, like [`Reader::open`](crate::Reader::open).
    /// [`ReaderOptions::open_async`] offers more choices.
    ///
    /// # Errors
    /// An input that is refused or cannot be read.
    pub async fn open(input: impl Into<Input>) -> Result<Self> {
        ReaderOptions::default().open_async(input).await
    }

    /// Returns the path or address that the model was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Returns the model: its tensors, its files and its metadata.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the engine that decodes the tensors.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the base of a delta, if one was given.
    #[must_use]
    pub fn base(&self) -> Option<&Self> {
        self.base.as_deref()
    }

    /// Returns the names of all tensors, in the order of
    /// [`Reader::names`](crate::Reader::names).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors().iter().map(|tensor| tensor.name.as_str())
    }

    /// Returns the name, dtype, shape and stored parts of every tensor.
    #[must_use]
    pub fn tensors(&self) -> &[model::TensorInfo] {
        self.model.tensors()
    }

    /// Returns the `__metadata__` of the safetensors headers.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.model.metadata()
    }

    /// Returns the entry of the tensor called `name` in the model's index.
    ///
    /// # Errors
    /// The model has no such tensor.
    pub fn find(&self, name: &str) -> Result<&model::TensorInfo> {
        Ok(&self.tensors()[self.number(name)?])
    }

    /// Attaches the base of a delta, like
    /// [`Reader::with_base`](crate::Reader::with_base).
    ///
    /// # Errors
    /// A base that does not match; a delta that restores a file of another format than
    /// safetensors (docs/formats/zstn-delta.md 6).
    pub fn with_base(mut self, base: Self) -> Result<Self> {
        check_takes_base(&self)?;
        let bases = std::iter::successors(Some(&base), |base| base.base());
        check_chain(&bases.map(Self::name).collect::<Vec<_>>())?;
        Arc::make_mut(&mut self.model)
            .attach_base(&base.model)
            .map_err(Error::place(&self.files.name))?;
        self.base = Some(Arc::new(base));
        Ok(self)
    }

    /// Returns a reader of the same model that reads its bytes from `sources`, one for
    /// each file, which must contain the same bytes. A server uses it for clients that
    /// each read with their own permissions. The new reader has the name of the first
    /// source.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sources(&self, sources: Vec<Arc<dyn AsyncSource>>) -> Self {
        debug_assert_eq!(sources.len(), self.files.sources.len());
        let name = sources
            .first()
            .map_or_else(String::new, |source| source.name().into());
        Self {
            files: Arc::new(Files { name, sources }),
            ..self.clone()
        }
    }

    /// Returns a reader whose reads hold `guard` until they release their memory. A
    /// tensor that is being decoded when its future is dropped holds it until the thread
    /// of the engine has finished.
    #[doc(hidden)]
    #[must_use]
    pub fn with_guard(&self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            _guard: Some(guard),
            ..self.clone()
        }
    }

    /// Reads the tensor called `name`.
    ///
    /// # Errors
    /// The errors of [`Reader::read`](crate::Reader::read).
    pub async fn read(&self, name: &str) -> Result<Tensor> {
        let number = self.number(name)?;
        let bytes = self.run(ReadTensor::new(self, number)?).await?;
        let entry = &self.tensors()[number];
        Ok(tensor(entry, &entry.shape, bytes))
    }

    /// Reads the `rows` of the tensor called `name`, a range of its outermost dimension,
    /// like [`Reader::read_rows`](crate::Reader::read_rows).
    ///
    /// # Errors
    /// The errors of [`Reader::read_rows`](crate::Reader::read_rows).
    pub async fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Tensor> {
        let plan = self.plan_rows(name, rows).await?;
        self.read_planned(&plan).await
    }

    /// Plans the reads for the `rows` of the tensor called `name`. Reads the block
    /// tables that were not loaded together with the index.
    ///
    /// # Errors
    /// The errors of [`Reader::plan_rows`](crate::Reader::plan_rows).
    pub async fn plan_rows(&self, name: &str, rows: Range<u64>) -> Result<RowsPlan> {
        self.run(PlanRows::new(self, name, rows)?).await
    }

    /// Reads the rows of a plan that [`AsyncReader::plan_rows`] made. All ranges are read
    /// at the same time, including those in the base.
    ///
    /// # Errors
    /// The errors of [`Reader::read_planned`](crate::Reader::read_planned).
    pub async fn read_planned(&self, plan: &RowsPlan) -> Result<Tensor> {
        let bytes = self.run(ReadRows::new(self, plan.clone())?).await?;
        Ok(tensor(self.find(plan.name())?, plan.shape(), bytes))
    }

    /// Reads tensors in the order of `names`. Up to four tensors are read and decoded
    /// at the same time.
    pub fn stream<N: Into<String>, I: IntoIterator<Item = N>>(
        &self,
        names: I,
    ) -> impl Stream<Item = Result<Tensor>> + Send + Unpin + use<N, I> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let reader = self.clone();
        let reads = stream::iter(names).map(move |name| {
            let reader = reader.clone();
            async move { reader.read(&name).await }
        });
        Box::pin(reads.buffered(STREAMED_AT_ONCE))
    }

    /// Runs `work` for this model. The future is boxed, because the compiler cannot prove
    /// that work with a lifetime may be sent to other threads.
    fn run<T, W>(&self, work: W) -> Reading<'_, T>
    where
        T: Send + 'static,
        W: Work<'static, Output = T> + Send + 'static,
    {
        Box::pin(async move {
            let source = |need: &Need| {
                let reader = self.at_level(need.level).unwrap_or(self);
                Arc::clone(&reader.files.sources[need.file])
            };
            run(work, &self.engine, &source).await
        })
    }
}

impl Opened for AsyncReader {
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
        self.files.sources[file].check_unchanged()
    }

    fn other_version(&self, file: usize) -> Option<Error> {
        self.files.sources[file].other_version()
    }
}

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
        if self.bases.is_empty() {
            return Ok(reader);
        }
        check_takes_base(&reader)?;
        let stored = self.clone().view(View::Stored);
        let opened: Vec<_> = self
            .bases
            .iter()
            .map(|base| stored.open_files(&engine, base))
            .collect();
        let opened = stream::iter(opened).buffered(FILES_AT_ONCE);
        let opened: Vec<_> = opened.try_collect().await?;
        let mut bases = opened.into_iter().rev();
        let last = bases.next();
        let base = bases.try_fold(last, |further: Option<AsyncReader>, base| {
            Ok::<_, Error>(Some(match further {
                Some(further) => base.with_base(further)?,
                None => base,
            }))
        });
        match base? {
            Some(base) => reader.with_base(base),
            None => Ok(reader),
        }
    }

    /// Opens a model that consists of one file. The tensors are read as they are stored.
    ///
    /// # Errors
    /// A file that is refused or cannot be read.
    pub async fn open_async_source(
        &self,
        source: impl AsyncSource + 'static,
    ) -> Result<AsyncReader> {
        let engine = self.engine.clone().unwrap_or_default();
        let name = source.name().to_owned();
        let opened = vec![open_file(&engine, Arc::new(source)).await?];
        let stored = self.clone().view(View::Stored);
        stored.open_opened(&engine, name, opened, None, &[]).await
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

    /// Opens the other files of ONNX models at the `locations`, and returns their
    /// catalogs.
    async fn open_external_async(
        &self,
        catalogs: &mut [FileCatalog],
        locations: &[Option<Location>],
    ) -> Result<Vec<(Arc<dyn AsyncSource>, FileCatalog)>> {
        let files = external::find(catalogs, locations);
        let are_many = files.len() > MAX_OPEN_FILES;
        let opened = files.iter().map(|file| async move {
            let source: Arc<dyn AsyncSource> = match &file.location {
                Err(_) => return Err(external::without_location()),
                Ok(Location::Path(path)) if are_many => {
                    let path = path.clone();
                    let file = on_thread(move || ClosedFile::open(&path)).await?;
                    Arc::new(BlockingSource::new(file))
                }
                Ok(location) => location.open_async(&self.http).await?,
            };
            let len_bytes = source.len_bytes();
            Ok((source, len_bytes))
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
        for (source, catalog) in self.open_external_async(&mut catalogs, &locations).await? {
            sources.push(source);
            catalogs.push(catalog);
        }
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
        let model = opening::of_one_version(opened, changes.next())?;
        drop(changes);
        Ok(AsyncReader {
            files: Arc::new(Files { name, sources }),
            model: Arc::new(model),
            engine: engine.clone(),
            base: None,
            _guard: None,
        })
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
