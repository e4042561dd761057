//! Reads single tensors without blocking a thread.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use zstn_core::model::{self, Model};

use super::async_driver::run;
use super::decode::ReadTensor;
use super::external::Beside;
use super::plan_rows::PlanRows;
use super::rows::{ReadRows, RowsPlan};
use super::state_machine::{Need, Opened, Work};
use super::{ReaderOptions, tensor};
use crate::source::{AsyncSource, Input, Reading};
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
    pub(super) files: Arc<Files>,
    /// Includes the properties of the base's tensors once a base is attached.
    pub(super) model: Arc<Model>,
    pub(super) engine: Engine,
    pub(super) base: Option<Arc<Self>>,
    pub(super) _guard: Option<Arc<dyn Any + Send + Sync>>,
}

/// The files of an opened model, which all its handles share.
pub(super) struct Files {
    pub(super) name: String,
    pub(super) sources: Vec<Arc<dyn AsyncSource>>,
    pub(super) beside: Beside,
}

impl AsyncReader {
    pub(super) fn new(files: Files, model: Model, engine: &Engine) -> Self {
        Self {
            files: Arc::new(files),
            model: Arc::new(model),
            engine: engine.clone(),
            base: None,
            _guard: None,
        }
    }

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
            files: Arc::new(Files {
                name,
                sources,
                beside: self.files.beside.clone(),
            }),
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
        Ok(self.run(PlanRows::new(self, name, rows)?).await?.only())
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
    pub(super) fn run<T, W>(&self, work: W) -> Reading<'_, T>
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
