//! Packed files of the upstream, and the files that they restore.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;

use super::blocks::{Blocks, CachedSource};
use super::metrics::Metrics;
use super::recent::Recent;
use super::request::Revision;
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use crate::serve::unpacked::{DecodedTensors, Packed, Patience};
use crate::shards::unpacked_index_of;
use crate::source::{Input, Source};
use crate::{Engine, Error};

/// Files about which it is remembered what they restore.
const MAX_KNOWN: usize = 1 << 16;

/// Tensors that are fetched and decoded at a time from another machine. Those that
/// decode share the threads of the engine.
const TURNS: usize = 32;

/// Tensors that are fetched for a request before it gets to them.
const AHEAD: usize = 8;

/// The longest index of shards, in bytes.
const MAX_INDEX_BYTES: u64 = zstn_core::limits::HEADER_LEN_BYTES;

/// The file that a packed one restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restored {
    pub(super) len_bytes: u64,
    /// Its name among all bytes: the SHA-256 in hexadecimal digits, if it is known.
    pub(super) tag: String,
    pub(super) sha256: Option<String>,
}

/// Packed files by the identities of their bytes.
pub(super) struct PackedFiles {
    upstream: Arc<Upstream>,
    engine: Engine,
    pub(super) decoded: Arc<DecodedTensors>,
    metrics: Arc<Metrics>,
    next_id: AtomicU64,
    kept: Arc<Kept>,
}

/// Caches of packed files, shared by all clients that may read them.
struct Kept {
    blocks: Arc<Blocks>,
    /// Without a way to their bytes.
    open: Recent<Arc<str>, Arc<Packed>>,
    indexes: Recent<Arc<str>, Arc<Vec<u8>>>,
    /// `None` for one that does not restore a file by itself.
    known: Mutex<HashMap<Arc<str>, Option<Restored>>>,
}

impl Kept {
    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Option<Restored>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops everything about a file whose bytes are not what they should be: an
    /// upstream may have mixed them up, and the next request has to try again.
    fn forget(&self, identity: &Arc<str>) {
        self.blocks.forget(identity);
        self.open.forget(identity);
        self.indexes.forget(identity);
        self.known().remove(identity);
    }
}

/// A packed file, as one client may read it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) revision: &'a Revision,
    pub(super) path: &'a str,
    pub(super) entry: &'a Entry,
    pub(super) permissions: &'a Permissions,
}

impl PackedFiles {
    /// Decoded tensors take up to `cache_bytes`, bytes of the upstream up to
    /// `upstream_cache_bytes`.
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        engine: Engine,
        cache_bytes: u64,
        upstream_cache_bytes: u64,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let mut decoded = DecodedTensors::new(cache_bytes, Patience::default());
        if upstream.is_remote() {
            decoded = decoded.with_turns(TURNS, AHEAD);
        }
        Self {
            upstream: Arc::clone(upstream),
            engine,
            decoded: Arc::new(decoded),
            metrics: Arc::clone(metrics),
            next_id: AtomicU64::new(0),
            kept: Arc::new(Kept {
                blocks: Arc::new(Blocks::new(upstream_cache_bytes, metrics)),
                open: Recent::new(),
                indexes: Recent::new(),
                known: Mutex::default(),
            }),
        }
    }

    /// Returns a packed file that is read with the client's permissions.
    pub(super) async fn packed(&self, file: &Named<'_>) -> Result<Arc<Packed>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let cell = self.kept.open.cell(&identity);
        let opened = cell.get_or_try_init(|| async {
            let entry = self.pinned(file).await?;
            let file = &Named {
                entry: &entry,
                ..*file
            };
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (engine, source) = (self.engine.clone(), self.source(file, &identity));
            let nothing = self.unreadable(file, &identity);
            self.metrics.opened_files.inc();
            let opened = blocking(move || {
                let packed = Packed::open(&engine, Input::from(source), id)?;
                Ok(Arc::new(packed.with_source(nothing, Arc::new(|| ()))))
            });
            opened.await.inspect_err(|_| self.kept.forget(&identity))
        });
        let opened = opened.await?;
        let (source, kept) = (self.source(file, &identity), Arc::clone(&self.kept));
        let on_failure = Arc::new(move || kept.forget(&identity));
        Ok(Arc::new(opened.with_source(source, on_failure)))
    }

    /// Returns what a packed file restores; `None` if that is not a file.
    pub(super) async fn restored(&self, file: &Named<'_>) -> Result<Option<Restored>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        if let Some(known) = self.kept.known().get(&identity) {
            return Ok(known.clone());
        }
        let restored = match self.packed(file).await {
            Ok(packed) => Some(describe(&packed, file.entry)),
            // A difference from another checkpoint, or a format that never was one
            // file.
            Err(refusal) if refusal.is_unsupported() => None,
            Err(refusal) => return Err(refusal),
        };
        let mut known = self.kept.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(identity, restored.clone());
        Ok(restored)
    }

    /// Returns the text of the index of safetensors files that one of packed files
    /// restores.
    pub(super) async fn index(&self, file: &Named<'_>) -> Result<Arc<Vec<u8>>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let cell = self.kept.indexes.cell(&identity);
        let made = cell.get_or_try_init(|| async {
            let entry = self.pinned(file).await?;
            let file = &Named {
                entry: &entry,
                ..*file
            };
            let (source, path) = (self.source(file, &identity), file.path.to_owned());
            let made = blocking(move || {
                if source.len_bytes() > MAX_INDEX_BYTES {
                    let detail = "the index is too long";
                    return Err(Error::place(&path)(zstn_core::Error::limit(detail)));
                }
                let text = source.read(0..source.len_bytes())?.into_owned();
                Ok(Arc::new(unpacked_index_of(&path, text)?))
            });
            made.await.inspect_err(|_| self.kept.forget(&identity))
        });
        made.await.cloned()
    }

    /// Returns the file in a commit. What a list says of a branch may be of the
    /// past, and bytes of the present must not be kept under its name: what is
    /// kept is for everybody.
    async fn pinned(&self, file: &Named<'_>) -> Result<Entry, Refusal> {
        if file.entry.commit.is_some() {
            return Ok(file.entry.clone());
        }
        let looked = self
            .upstream
            .look(file.revision, file.path, file.permissions);
        let entry = looked.await?;
        match entry.identity == file.entry.identity {
            true => Ok(entry),
            false => Err(Refusal::from(Error::Changed {
                name: format!("{}/{}", file.revision.repository.prefix(), file.path),
                detail: ": it was listed with other contents".into(),
            })),
        }
    }

    fn source(&self, file: &Named<'_>, identity: &Arc<str>) -> Box<dyn Source> {
        let upstream = Arc::clone(&self.upstream);
        let (mut revision, path) = (file.revision.clone(), file.path.to_owned());
        // A branch may move before the last byte is read.
        if let Some(commit) = &file.entry.commit {
            revision.name.clone_from(commit);
        }
        let (permissions, entry) = (file.permissions.clone(), file.entry.clone());
        self.cached(file, identity, move || {
            upstream.open(&revision, &path, &entry, &permissions)
        })
    }

    /// Returns a source for a file that nobody reads: permissions end with the
    /// request that they came with.
    fn unreadable(&self, file: &Named<'_>, identity: &Arc<str>) -> Box<dyn Source> {
        let path = file.path.to_owned();
        self.cached(file, identity, move || {
            Err(Error::Usage(format!("{path} is not open for anybody")))
        })
    }

    fn cached(
        &self,
        file: &Named<'_>,
        identity: &Arc<str>,
        opener: impl Fn() -> crate::Result<Box<dyn Source>> + Send + Sync + 'static,
    ) -> Box<dyn Source> {
        let name = format!("{}/{}", file.revision.repository.prefix(), file.path);
        Box::new(CachedSource::new(
            &self.kept.blocks,
            name,
            identity,
            file.entry.len_bytes,
            Box::new(opener),
        ))
    }
}

/// Returns what `packed`, which is stored as `entry`, restores.
pub(super) fn describe(packed: &Packed, entry: &Entry) -> Restored {
    let sha256 = packed.sha256();
    let tag = sha256
        .clone()
        .unwrap_or_else(|| opaque_tag(entry.identity.as_bytes()));
    Restored {
        len_bytes: packed.layout().len_bytes(),
        tag,
        sha256,
    }
}

/// Returns a tag for something that has no digest of its own, made from `bytes`
/// that determine it. It is as long as those of small files in a hub.
pub(super) fn opaque_tag(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..40].to_owned()
}

/// Runs what waits for the upstream or decodes.
async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> crate::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(task).await {
        Ok(result) => Ok(result?),
        Err(_) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Refusal::new(status, "opening the file failed unexpectedly"))
        }
    }
}
