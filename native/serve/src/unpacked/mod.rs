//! Safetensors files that do not exist on disk: the requested ranges are decoded from
//! packed files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use headers::ContentType;
use quick_cache::sync::Cache;
use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::model::{Piece, Unpacked};

use super::answer::plain;
use super::file::{About, Version, begin};
use body::Rest;
use zstn::internals::{on_thread, unpacked_index};
use zstn::source::{BlockingSource, FileSource};
use zstn::{AsyncReader, AsyncSource, Engine, Error, Reader, Result, RowsPlan};

use cache::Claim;
pub use cache::{DecodedTensors, Patience};

mod body;
mod cache;

/// Number of packed files that are kept open.
const MOST_OPEN: usize = 64;

/// The packed files that are open, and their decoded tensors.
pub(super) struct UnpackedFiles {
    engine: Engine,
    decoded: Arc<DecodedTensors>,
    open: Cache<PathBuf, Open>,
    next_id: AtomicU64,
}

/// An open packed file, and the version of the file on disk when it was opened.
#[derive(Clone)]
struct Open {
    version: Version,
    packed: Arc<Packed>,
}

impl UnpackedFiles {
    pub(super) fn new(engine: Engine, decoded: DecodedTensors) -> Self {
        Self {
            engine,
            decoded: Arc::new(decoded),
            open: Cache::new(MOST_OPEN),
            next_id: AtomicU64::new(0),
        }
    }

    /// Returns the answer to a request for the file that the one at `path` restores,
    /// and the length of its body.
    pub(super) async fn send(self: Arc<Self>, path: PathBuf, request: &Parts) -> (Response, u64) {
        let this = Arc::clone(&self);
        let opened = tokio::spawn(async move { this.open(path).await }).await;
        let (packed, version) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return refused(&error),
            Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR, "opening it failed"),
        };
        let about = About {
            len_bytes: packed.layout().len_bytes(),
            tag: version.tag("u"),
            modified: Some(version.modified),
            content_type: ContentType::octet_stream(),
        };
        let sent = send(&self.decoded, packed, &about, request).await;
        sent.unwrap_or_else(|error| plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
    }

    /// Opens the current version of the packed file at `path`, or returns it if it is
    /// open.
    async fn open(&self, path: PathBuf) -> Result<(Arc<Packed>, Version)> {
        let now = tokio::fs::metadata(&path).await;
        let now = Version::of(&now.map_err(Error::file("look at", &path))?);
        if let Some(open) = self.open.get(&path)
            && open.version == now
        {
            return Ok((open.packed, now));
        }
        // Error messages show clients the name of the file, not its path.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let opened = path.clone();
        let source = on_thread(move || FileSource::open(&opened)).await?;
        let source = source.with_name(name);
        let version = Version::of_source(&source);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let source = BlockingSource::new(source);
        let packed = Arc::new(Packed::open(&self.engine, source, id).await?);
        let open = Open {
            version,
            packed: Arc::clone(&packed),
        };
        self.open.insert(path, open);
        Ok((packed, version))
    }
}

/// Returns the answer to a request for the file that `packed` restores, and the length
/// of its body. Damage that is found after the answer has begun breaks it off.
///
/// # Errors
/// If the first chunk cannot be decoded, or a range of at most 4 MiB cannot be decoded
/// completely.
pub async fn send(
    decoded: &Arc<DecodedTensors>,
    packed: Arc<Packed>,
    about: &About,
    request: &Parts,
) -> io::Result<(Response, u64)> {
    let (mut response, body) = begin(about, request);
    let Some(range) = body else {
        return Ok((response, 0));
    };
    let len = range.end - range.start;
    let rest = Rest::new(Arc::clone(decoded), packed, range);
    *response.body_mut() = rest.into_body().await?;
    Ok((response, len))
}

/// Returns the answer to a request for the index of safetensors files that the index of
/// packed files at `path` restores, and the length of its body.
pub(super) async fn send_index(path: PathBuf, request: &Parts) -> (Response, u64) {
    let made = tokio::task::spawn_blocking(move || {
        let text = unpacked_index(&path)?;
        let metadata = fs::metadata(&path).map_err(Error::file("look at", &path))?;
        Ok((text, Version::of(&metadata)))
    });
    let (text, version) = match made.await {
        Ok(Ok(made)) => made,
        Ok(Err(error)) => return refused(&error),
        Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR, "reading it failed"),
    };
    let about = About {
        len_bytes: text.len() as u64,
        tag: version.tag("u"),
        modified: Some(version.modified),
        content_type: ContentType::json(),
    };
    let (mut response, body) = begin(&about, request);
    let Some(range) = body else {
        return (response, 0);
    };
    let len = range.end - range.start;
    *response.body_mut() = Body::from(part(&text, range).to_vec());
    (response, len)
}

/// Returns the refusal for a file that cannot be opened: 404 if it is not unpackable,
/// 500 if it is damaged or unreadable.
fn refused(error: &Error) -> (Response, u64) {
    let status = match error.refusal().map(zstn_core::Error::kind) {
        Some(ErrorKind::Unsupported) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, &error.to_string())
}

/// Tensors longer than this, or longer than the limit for decoding as a whole, are
/// decoded in blocks of rows where the format permits it.
const LARGE_BYTES: u64 = 64 << 20;

/// Maximum length of these blocks in bytes, rounded down to whole rows but at least one
/// row.
const BLOCK_BYTES: u64 = 16 << 20;

/// A packed file and the layout of the file that it restores.
#[derive(Clone)]
pub struct Packed {
    id: u64,
    reader: AsyncReader,
    layout: Arc<Unpacked>,
    /// Maps the number of each large tensor to true if it can be decoded in blocks. A
    /// tensor is absent until that has been determined.
    cuts: Arc<Mutex<HashMap<usize, bool>>>,
    on_failure: Option<OnFailure>,
}

/// A function that is called when a tensor cannot be read.
pub type OnFailure = Arc<dyn Fn() + Send + Sync>;

impl Packed {
    /// Opens a packed file. `id` must be unique among the files of one
    /// [`DecodedTensors`].
    ///
    /// # Errors
    /// The errors of [`AsyncReader::open`], and an
    /// [`Unsupported`](zstn_core::ErrorKind::Unsupported) error for a file that does
    /// not restore a file on its own.
    pub async fn open(
        engine: &Engine,
        source: impl AsyncSource + 'static,
        id: u64,
    ) -> Result<Self> {
        let options = Reader::options().engine(engine);
        let reader = options.open_async_source(source).await?;
        let refuse = Error::place(reader.name().to_owned());
        if reader.model().needs_base() {
            let detail = "it is a delta from a checkpoint that is not known here";
            return Err(refuse(zstn_core::Error::unsupported(detail)));
        }
        let layout = reader.model().unpacked().map_err(&refuse)?;
        Ok(Self {
            id,
            reader,
            layout: Arc::new(layout),
            cuts: Arc::default(),
            on_failure: None,
        })
    }

    /// Returns the same file reading its bytes from `source`. `on_failure` is called
    /// when a tensor cannot be decoded from them.
    pub fn with_source(&self, source: Arc<dyn AsyncSource>, on_failure: OnFailure) -> Self {
        Self {
            reader: self.reader.with_sources(vec![source]),
            on_failure: Some(on_failure),
            ..self.clone()
        }
    }

    /// Returns the same file, whose reads hold `claim` until they release their memory.
    fn with_claim(&self, claim: Arc<Claim>) -> Self {
        Self {
            reader: self.reader.with_guard(claim),
            ..self.clone()
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the packed file restores a safetensors file. Otherwise it restores
    /// a file of another format (docs/formats/zstn-virtual-header.md).
    pub fn restores_safetensors(&self) -> bool {
        let mut files = self.reader.model().files().iter();
        files.all(|file| file.original_kind().is_none())
    }

    /// Returns the layout of the file that the packed file restores.
    pub fn layout(&self) -> &Unpacked {
        &self.layout
    }

    /// Returns the SHA-256 of the original file in hexadecimal, as claimed by the
    /// packed file, if the restored file is the original.
    pub fn sha256(&self) -> Option<String> {
        let integrity = self.reader.model().files()[0].integrity();
        let sha256 = integrity
            .filter(|integrity| integrity.is_complete() && self.layout.is_original())
            .and_then(|integrity| integrity.original_sha256())?;
        Some(sha256.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(super) fn tensor_len_bytes(&self, number: usize) -> u64 {
        self.reader.model().tensors()[number].len_bytes()
    }

    /// Returns the span of a tensor that is decoded together with its byte `at`: the
    /// whole tensor, or a block of rows of a large one. Returns `None` until
    /// [`find_cut`](Self::find_cut) has determined whether a large tensor can be
    /// decoded in blocks.
    pub(super) fn span(&self, number: usize, at: u64, max_bytes: u64) -> Option<Range<u64>> {
        let whole = 0..self.tensor_len_bytes(number);
        let Some(block_bytes) = self.block_bytes(number, max_bytes) else {
            return Some(whole);
        };
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        match *cuts.get(&number)? {
            true => {
                let start = at / block_bytes * block_bytes;
                Some(start..whole.end.min(start.saturating_add(block_bytes)))
            }
            false => Some(whole),
        }
    }

    /// Returns the block length for a large tensor, or `None` for a tensor that is
    /// decoded as a whole.
    fn block_bytes(&self, number: usize, max_bytes: u64) -> Option<u64> {
        let tensor = &self.reader.model().tensors()[number];
        let (len_bytes, count) = (tensor.len_bytes(), *tensor.shape.first()?);
        if len_bytes <= LARGE_BYTES.min(max_bytes) || count < 2 || !len_bytes.is_multiple_of(count)
        {
            return None;
        }
        let row_bytes = len_bytes / count;
        Some(row_bytes * (BLOCK_BYTES.min(max_bytes) / row_bytes).max(1))
    }

    /// Determines whether a large tensor can be decoded in blocks. Reads its block
    /// table.
    pub(super) async fn find_cut(&self, number: usize, max_bytes: u64) -> Result<()> {
        let Some(block_bytes) = self.block_bytes(number, max_bytes) else {
            return Ok(());
        };
        let plan = self.plan(number, &(0..block_bytes)).await;
        let plan = plan.inspect_err(|_| {
            self.failed();
        })?;
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.insert(number, !plan.is_whole());
        Ok(())
    }

    async fn plan(&self, number: usize, span: &Range<u64>) -> Result<RowsPlan> {
        let tensor = &self.reader.tensors()[number];
        let count = tensor.shape.first().copied().unwrap_or(1).max(1);
        let row_bytes = (tensor.len_bytes() / count).max(1);
        let rows = span.start / row_bytes..span.end / row_bytes;
        self.reader.plan_rows(&tensor.name, rows).await
    }

    /// Reads and decodes a [span](Self::span) of tensor `number`.
    async fn read(&self, number: usize, span: &Range<u64>) -> Result<Vec<u8>> {
        let read = async || match *span == (0..self.tensor_len_bytes(number)) {
            true => self.reader.read(self.tensor_name(number)).await,
            false => {
                self.reader
                    .read_planned(&self.plan(number, span).await?)
                    .await
            }
        };
        let bytes = match read().await {
            // The cached bytes, which may have been fetched for another client, may be
            // damaged. `failed` has dropped them, so they are fetched once more.
            Err(error) if self.failed() && error.refusal().is_some() => {
                read().await.inspect_err(|_| {
                    self.failed();
                })
            }
            read => read,
        };
        Ok(bytes?.bytes)
    }

    /// Reports that bytes are damaged. Returns whether reading them again may return
    /// other bytes.
    fn failed(&self) -> bool {
        if let Some(on_failure) = &self.on_failure {
            on_failure();
        }
        self.on_failure.is_some()
    }

    /// Returns the whole restored file, which has to fit in memory.
    pub async fn restore(&self) -> Result<Vec<u8>> {
        let mut restored = Vec::new();
        for piece in self.layout.pieces(0..self.layout.len_bytes()) {
            match piece {
                Piece::Head(range) => restored.extend_from_slice(&self.layout.head()[range]),
                Piece::Tensor { number, bytes } => {
                    let whole = 0..self.tensor_len_bytes(number);
                    restored.extend_from_slice(part(&self.read(number, &whole).await?, bytes));
                }
            }
        }
        Ok(restored)
    }

    /// Returns the name of a tensor, for messages.
    pub(super) fn tensor_name(&self, number: usize) -> &str {
        &self.reader.tensors()[number].name
    }
}
