//! The settings for work on a checkpoint, none of which influences the result.

use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::buffers::Buffers;
use crate::source::{HttpOptions, Input, Local};
use crate::{Engine, Error, FinishedTensor, Phase, Progress, Reader, ReaderOptions, Result, View};

/// The settings for work on a checkpoint: threads, network, memory, progress and
/// cancellation. None of them influences the bytes of a result; every setting that does
/// is in the options of a function, such as [`PackOptions`](crate::PackOptions).
///
/// A program usually makes one job and passes it to every call. Clones are cheap, so a
/// call that needs another progress or limit gets a changed clone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// use zstn::{CancelToken, Engine, Error, Job, PackOptions};
///
/// let token = CancelToken::new();
/// let job = Job::new()
///     .engine(&Engine::new(2)?)
///     .memory_bytes(512 << 20)
///     .cancel_token(&token);
/// zstn::pack(&job, "model.safetensors", "model.zstn", &PackOptions::default())?;
///
/// // Usually another thread does this while the work runs.
/// token.cancel();
/// let result = zstn::pack(&job, "model.safetensors", "again.zstn", &PackOptions::default());
/// assert!(matches!(result, Err(Error::Cancelled)));
/// assert!(!std::fs::exists("again.zstn")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Job<'a> {
    pub(crate) engine: Engine,
    pub(crate) http: Arc<HttpOptions>,
    memory_bytes: Option<u64>,
    progress: &'a dyn Progress,
    cancel_token: CancelToken,
    /// Memory that is used again while the job runs.
    pub(crate) buffers: Buffers,
}

impl Job<'_> {
    /// Returns a job on the engine of the process ([`Engine::default`]), with default
    /// network options and memory limits, without progress reports or cancellation.
    pub fn new() -> Self {
        Self {
            engine: Engine::of_process(),
            http: Arc::default(),
            memory_bytes: None,
            progress: &(),
            cancel_token: CancelToken::new(),
            buffers: Buffers::default(),
        }
    }
}

impl<'a> Job<'a> {
    /// Sets the engine whose threads do the work.
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self
    }

    /// Sets time limits, retries and headers for requests to addresses: of inputs and
    /// outputs, of bases and originals, and of the files that belong to them.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = Arc::new(http);
        self
    }

    /// Sets the approximate limit for memory in bytes.
    ///
    /// The default for packing and converting is 1 GiB, or 256 MiB for each thread if that
    /// is more; packing requires at least 64 MiB, and uses less than the limit if that
    /// keeps all threads busy. Unpacking and
    /// verifying have no limit by default: every thread decodes a tensor. Converting,
    /// unpacking and verifying exceed the limit if a single tensor does.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = Some(memory_bytes);
        self
    }

    /// Sets the progress that watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> Job<'b>
    where
        'a: 'b,
    {
        Job { progress, ..self }
    }

    /// Sets the token with which another thread can cancel the work. Cancelled work
    /// returns [`Error::Cancelled`], and its output does not appear.
    ///
    /// Work ends within a fifth of a second, unless it waits for the operating system
    /// or sends to a server that accepts nothing, or the program is compiled with
    /// `panic = "abort"`: then a tensor that is being coded is completed first. A result
    /// that has begun to appear is completed.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel_token = token.clone();
        self
    }

    /// Returns the same job without a progress. It can still be cancelled.
    pub(crate) fn quiet(&self) -> Self {
        self.clone().progress(&())
    }

    /// Returns the job with the default limit for packing and converting, unless the
    /// caller has set a limit.
    pub(crate) fn or_default_memory(mut self) -> Self {
        let default_bytes = default_memory_bytes(&self.engine);
        self.memory_bytes.get_or_insert(default_bytes);
        self
    }

    /// Returns a job for one of `count` files that are processed at the same time,
    /// which share the memory. Cancelling `token`, a child of this job's token, cancels
    /// only the returned job.
    pub(crate) fn for_one_of(&self, count: usize, token: &CancelToken) -> Self {
        let share = |bytes: u64| bytes / count.max(1) as u64;
        Self {
            memory_bytes: self.memory_bytes.map(share),
            http: self.http_ended_by(token),
            cancel_token: token.clone(),
            ..self.clone()
        }
    }

    /// Returns the network options with reads that end once `token` is cancelled.
    fn http_ended_by(&self, token: &CancelToken) -> Arc<HttpOptions> {
        let mut http = HttpOptions::clone(&self.http);
        http.cancel_token = token.clone();
        Arc::new(http)
    }

    /// Returns a token that is also cancelled when the job is.
    pub(crate) fn child_token(&self) -> CancelToken {
        CancelToken(Arc::new(TokenState {
            is_cancelled: AtomicBool::new(false),
            parent: Some(self.cancel_token.clone()),
        }))
    }

    /// Returns the limit for memory, or `u64::MAX` if there is none.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_bytes.unwrap_or(u64::MAX)
    }

    /// Opens a model for reading with the engine and the network options of the job.
    pub(crate) fn open(&self, input: &Input, bases: &[Input], view: View) -> Result<Reader> {
        let http = HttpOptions::clone(&self.http);
        let options = Reader::options().engine(&self.steady_engine()).http(http);
        let options = bases.iter().fold(options.view(view), ReaderOptions::base);
        Ok(options.open(input)?.with_engine(&self.engine))
    }

    /// Returns the engine for work on threads other than the caller's and the engine's:
    /// when the job is cancelled, this handle does not unwind.
    pub(crate) fn steady_engine(&self) -> Engine {
        self.engine.clone().ended_by(&CancelToken::new())
    }

    /// Returns an error once the job has been cancelled. Unlike [`Progress::check`], this
    /// does not call the caller's code, so that loops can call it in every step.
    pub(crate) fn ensure_running(&self) -> Result<()> {
        self.cancel_token.check()
    }

    /// Passes the bytes of `range` to `sink`, in order and in small pieces, until the
    /// job is cancelled.
    ///
    /// # Errors
    /// I/O errors; [`Error::Cancelled`]; the errors of `sink`.
    pub(crate) fn feed(
        &self,
        input: &Local,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        input.try_feed(range, &mut |piece| {
            self.ensure_running()?;
            sink(piece)
        })
    }

    /// Passes bytes in memory to `sink` in pieces, until the job is cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn feed_bytes(&self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<()> {
        const PIECE_BYTES: usize = 8 << 20;
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            self.ensure_running()?;
            sink(piece);
            Ok(())
        })
    }

    /// Runs `work`, which can be cancelled until it returns.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::Cancelled`] if the token was cancelled and `work`
    /// has not succeeded nevertheless.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.cancel_token.check()?;
        let job = Self {
            engine: self.engine.clone().ended_by(&self.cancel_token),
            http: self.http_ended_by(&self.cancel_token),
            buffers: Buffers::default(),
            ..self.clone()
        };
        match panic::catch_unwind(AssertUnwindSafe(|| work(&job))) {
            Ok(Err(_)) if self.cancel_token.is_cancelled() => Err(Error::Cancelled),
            Ok(result) => result,
            Err(payload) if payload.is::<Unwinding>() => Err(Error::Cancelled),
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}

/// Returns the default limit for packing and converting on the threads of `engine`.
pub fn default_memory_bytes(engine: &Engine) -> u64 {
    const MIN_BYTES: u64 = 1 << 30;
    const BYTES_PER_THREAD: u64 = 256 << 20;
    let threads = engine.threads() as u64;
    threads.saturating_mul(BYTES_PER_THREAD).max(MIN_BYTES)
}

impl Default for Job<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("engine", &self.engine)
            .field("http", &self.http)
            .field("memory_bytes", &self.memory_bytes)
            .field("cancel_token", &self.cancel_token)
            .finish_non_exhaustive()
    }
}

/// Forwards to the progress of the job, and ends the work once the job is cancelled.
impl Progress for Job<'_> {
    fn begin(&self, len_bytes: u64) {
        self.progress.begin(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        self.progress.advance(len_bytes);
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.cancel_token.unwind_if_cancelled();
        self.progress.fetching(so_far_bytes, len_bytes);
    }

    fn wants_tensors(&self) -> bool {
        self.progress.wants_tensors()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        self.progress.tensor(tensor);
    }

    fn phase(&self, phase: Phase) {
        self.progress.phase(phase);
    }

    fn check(&self) -> Result<()> {
        self.progress.check()?;
        self.cancel_token.check()
    }

    fn publishing(&self) -> Result<()> {
        self.cancel_token.check()?;
        self.progress.publishing()?;
        self.cancel_token.check()
    }
}

/// Cancels [`Job`]s, from any thread. All clones cancel the same jobs, and a cancelled
/// token stays cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    is_cancelled: AtomicBool,
    parent: Option<CancelToken>,
}

impl CancelToken {
    /// Returns a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the running jobs with this token, and all later ones.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Relaxed);
    }

    /// Returns whether the token has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let parent = self.0.parent.as_ref();
        self.0.is_cancelled.load(Relaxed) || parent.is_some_and(Self::is_cancelled)
    }

    /// Returns a guard that cancels the token when it is dropped, for work that ends
    /// with the request or the task that needs it.
    pub fn drop_guard(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }

    /// Returns an error once the token has been cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Unwinds the stack to [`Job::run`] once the token has been cancelled. This ends
    /// computations of the core that return no error; everything that they own is
    /// dropped. In a program that is compiled with `panic = "abort"`, they continue until
    /// the next call of [`Self::check`].
    pub(crate) fn unwind_if_cancelled(&self) {
        if cfg!(panic = "unwind") && self.is_cancelled() {
            // Unlike a panic, this prints no message.
            panic::resume_unwind(Box::new(Unwinding));
        }
    }
}

/// Cancels a [`CancelToken`] when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct CancelGuard(CancelToken);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The payload with which cancelled work unwinds.
struct Unwinding;
