//! Safetensors files that do not exist on disk: the requested ranges are decoded from
//! packed files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use headers::ContentType;
use zstn_core::ErrorKind;

use super::answer::{About, begin, plain};
use super::file::Version;
use body::Rest;
pub use cache::{DecodedTensors, Patience};
pub use packed::Packed;
use zstn::Engine;
use zstn::internals::unpacked_index;
use zstn::source::FileSource;

mod body;
mod cache;
mod packed;

/// Number of packed files that are kept open.
const MOST_OPEN: usize = 64;

/// The packed files that are open, and their decoded tensors.
pub(super) struct Unpacked {
    engine: Engine,
    decoded: Arc<DecodedTensors>,
    open: Mutex<HashMap<PathBuf, Open>>,
    uses: AtomicU64,
}

/// An open packed file, and the version of the file on disk when it was opened.
struct Open {
    last_use: u64,
    version: Version,
    packed: Arc<Packed>,
}

impl Unpacked {
    pub(super) fn new(engine: Engine, decoded: DecodedTensors) -> Self {
        Self {
            engine,
            decoded: Arc::new(decoded),
            open: Mutex::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Returns the answer to a request for the file that the one at `path` restores,
    /// and the length of its body.
    pub(super) async fn send(self: Arc<Self>, path: PathBuf, request: &Parts) -> (Response, u64) {
        let this = Arc::clone(&self);
        let opened = tokio::task::spawn_blocking(move || this.open(&path)).await;
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
    fn open(&self, path: &Path) -> zstn::Result<(Arc<Packed>, Version)> {
        let now = fs::metadata(path).map_err(zstn::Error::file("look at", path))?;
        let now = Version::of(&now);
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = lock().get_mut(path)
            && open.version == now
        {
            open.last_use = use_number;
            return Ok((Arc::clone(&open.packed), now));
        }
        // Error messages show clients the name of the file, not its path.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let source = FileSource::open(path)?.with_name(name);
        let version = Version::of_source(&source);
        let packed = Arc::new(Packed::open(&self.engine, source, use_number)?);
        let mut open = lock();
        if open.len() >= MOST_OPEN {
            let oldest = open.iter().min_by_key(|(_, open)| open.last_use);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        let opened = Open {
            last_use: use_number,
            version,
            packed: Arc::clone(&packed),
        };
        open.insert(path.into(), opened);
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
        let metadata = fs::metadata(&path).map_err(zstn::Error::file("look at", &path))?;
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
    *response.body_mut() = Body::from(zstn_core::bytes::part(&text, range).to_vec());
    (response, len)
}

/// Returns the refusal for a file that cannot be opened: 404 if it is not unpackable,
/// 500 if it is damaged or unreadable.
fn refused(error: &zstn::Error) -> (Response, u64) {
    let status = match error.refusal().map(zstn_core::Error::kind) {
        Some(ErrorKind::Unsupported) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, &error.to_string())
}
