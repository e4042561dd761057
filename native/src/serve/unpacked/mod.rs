//! Safetensors files that are not there: ranges of them are decoded out of
//! packed files when they are asked for.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use headers::ContentType;
use zstn_core::ErrorKind;
use zstn_core::model::Piece;

use super::answer::{About, begin, plain};
use super::file::Version;
use crate::Native;
use crate::shards::unpacked_index;
use cache::DecodedTensors;
use packed::Packed;

mod cache;
mod packed;

/// Up to this length an answer is complete before it begins, so that what
/// goes wrong has a status.
const AT_ONCE_BYTES: u64 = 4 << 20;

/// Packed files that are kept open.
const MOST_OPEN: usize = 64;

/// Packed files by what they restore.
pub(super) struct Unpacked {
    engine: Arc<Native>,
    decoded: Arc<DecodedTensors>,
    open: Mutex<HashMap<PathBuf, (u64, Arc<Packed>)>>,
    uses: AtomicU64,
}

impl Unpacked {
    /// `cache_bytes` of decoded tensors are kept.
    pub(super) fn new(engine: Native, cache_bytes: u64) -> Self {
        Self {
            engine: Arc::new(engine),
            decoded: Arc::new(DecodedTensors::new(cache_bytes)),
            open: Mutex::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// The answer to `request` about the file that the one at `path` restores,
    /// and the length of its body. What is damaged breaks the answer off where
    /// it has begun already.
    pub(super) async fn send(self: Arc<Self>, path: PathBuf, request: &Parts) -> (Response, u64) {
        let this = Arc::clone(&self);
        let opened = tokio::task::spawn_blocking(move || this.open(&path)).await;
        let packed = match opened {
            Ok(Ok(packed)) => packed,
            Ok(Err(error)) => return refused(&error),
            Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR, "opening it failed"),
        };
        let about = About {
            len_bytes: packed.layout().len_bytes(),
            tag: packed.tag(),
            modified: packed.version().modified,
            content_type: ContentType::octet_stream(),
        };
        let (mut response, body) = begin(&about, request);
        let Some(range) = body else {
            return (response, 0);
        };
        let len = range.end - range.start;
        match self.body(packed, range).await {
            Ok(body) => *response.body_mut() = body,
            Err(error) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
        (response, len)
    }

    /// The first piece is there before the answer begins, of a short body
    /// everything.
    async fn body(&self, packed: Arc<Packed>, range: Range<u64>) -> io::Result<Body> {
        let is_short = range.end - range.start <= AT_ONCE_BYTES;
        let mut pieces = self.pieces(packed, range);
        if is_short {
            let mut all = Vec::new();
            while let Some(piece) = pieces.try_next().await? {
                all.extend_from_slice(&piece);
            }
            return Ok(Body::from(all));
        }
        let first = pieces.try_next().await?;
        let first = stream::iter(first.map(Ok));
        Ok(Body::from_stream(first.chain(pieces)))
    }

    /// The next tensor is decoded while one is sent.
    fn pieces(
        &self,
        packed: Arc<Packed>,
        range: Range<u64>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Unpin + use<> {
        let pieces: Vec<Piece> = packed.layout().pieces(range).collect();
        let (engine, decoded) = (Arc::clone(&self.engine), Arc::clone(&self.decoded));
        let pieces = stream::iter(pieces).map(move |piece| {
            let (packed, engine) = (Arc::clone(&packed), Arc::clone(&engine));
            let decoded = Arc::clone(&decoded);
            async move {
                match piece {
                    Piece::Head(range) => {
                        Ok(Bytes::copy_from_slice(&packed.layout().head()[range]))
                    }
                    Piece::Tensor { number, bytes } => {
                        let key = (packed.id(), number);
                        let len_bytes = packed.tensor_len_bytes(number);
                        let decode = move || {
                            let tensor = packed.decode(&engine, number);
                            tensor.map_err(|error| error.to_string())
                        };
                        let lease = decoded.get(key, len_bytes, decode).await;
                        let lease = lease.map_err(io::Error::other)?;
                        let bytes = zstn_core::bytes::index(bytes.start)
                            ..zstn_core::bytes::index(bytes.end);
                        Ok(Bytes::from_owner(lease).slice(bytes))
                    }
                }
            }
        });
        Box::pin(pieces.buffered(2))
    }

    /// The packed file at `path` as it is now.
    fn open(&self, path: &Path) -> crate::Result<Arc<Packed>> {
        let now = fs::metadata(path).map_err(crate::Error::file("look at", path))?;
        let now = Version::of(&now);
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last_use, packed)) = lock().get_mut(path)
            && packed.version() == now
        {
            *last_use = use_number;
            return Ok(Arc::clone(packed));
        }
        let packed = Arc::new(Packed::open(&self.engine, path, use_number)?);
        let mut open = lock();
        if open.len() >= MOST_OPEN {
            let oldest = open.iter().min_by_key(|(_, (last_use, _))| *last_use);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        open.insert(path.into(), (use_number, Arc::clone(&packed)));
        Ok(packed)
    }

    /// Whether the file at `path`, a packed one or the index of such, can be
    /// had unpacked.
    pub(super) fn can_open(&self, path: &Path) -> bool {
        match path
            .extension()
            .is_some_and(|extension| extension == "zstn")
        {
            true => self.open(path).is_ok(),
            false => unpacked_index(path).is_ok(),
        }
    }
}

/// The answer to `request` about the index of safetensors files that the one
/// at `path`, of packed ones, restores, and the length of its body.
pub(super) async fn send_index(path: PathBuf, request: &Parts) -> (Response, u64) {
    let made = tokio::task::spawn_blocking(move || {
        let text = unpacked_index(&path)?;
        let metadata = fs::metadata(&path).map_err(crate::Error::file("look at", &path))?;
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
        modified: version.modified,
        content_type: ContentType::json(),
    };
    let (mut response, body) = begin(&about, request);
    let Some(range) = body else {
        return (response, 0);
    };
    let len = range.end - range.start;
    *response.body_mut() = Body::from(zstn_core::bytes::part(&text, range).to_vec());
    (response, len)
}

/// A file that cannot be had unpacked is not there; one that should be and is
/// damaged is an error.
fn refused(error: &crate::Error) -> (Response, u64) {
    let status = match error.refusal().map(zstn_core::Error::kind) {
        Some(ErrorKind::Unsupported) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, &error.to_string())
}
