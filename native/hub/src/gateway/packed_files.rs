//! Packed files of the upstream, and the files that they restore.

use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use zstn_core::catalog::has_other_extension;

use super::answer_cache::{AnswerCache, CacheKeys, EntryCache};
use super::block_cache::{Blocks, BoundedCache, CachedSource, Opening, bounded_cache};
use super::metrics::Metrics;
use super::request::Revision;
use super::task_limit::TaskLimit;
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use crate::manifest::hex;
use zstn::internals::{on_thread, unpacked_index_of};
use zstn::{AsyncSource, Engine, Error};
use zstn_serve::unpacked::{DecodedTensors, Packed, Patience};

/// Number of tensors that are fetched and decoded concurrently if the upstream is on
/// another machine. It bounds the connections to the upstream; the cache of decoded
/// tensors bounds the memory, and the threads of the engine the decoding.
const TURNS: usize = 256;

/// Number of tensors that are fetched for a request ahead of the one being sent.
const AHEAD: usize = 8;

/// Number of files that are opened or hashed concurrently; one address may use half of
/// them. It bounds the memory for headers and short files, and the connections to the
/// upstream.
const MAX_OPENINGS: usize = 64;

/// Maximum length of a shard index, in bytes.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// Memory in bytes for the parsed headers of recently used files, and the same again
/// for the texts of shard indexes.
const MAX_RECENT_BYTES: u64 = 256 << 20;

/// The memory that is counted for a short header or index, in bytes. It limits the
/// number of recently used files to 64.
const MIN_RECENT_BYTES: u64 = MAX_RECENT_BYTES / 64;

/// A restored file of up to this many bytes is decoded when it is opened, and its tag
/// is its SHA-256. The SHA-256 of a longer file is computed when a client reads it
/// whole.
const HASHED_BYTES: u64 = 8 << 20;

/// Estimated memory for the parsed header of a file, as a multiple of its length in the
/// file.
const INDEX_FACTOR: u64 = 8;

/// The file that a packed one restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restored {
    pub(super) len_bytes: u64,
    /// The ETag of its bytes. It depends on the packed file alone, so that every
    /// gateway always gives the same one: the SHA-256 for a file of at most
    /// `HASHED_BYTES`, otherwise a digest of the packed file's identity.
    pub(super) tag: String,
    /// The SHA-256 of its bytes, if this process has computed it. The digest that a
    /// packed file claims is never reported.
    pub(super) sha256: Option<String>,
    /// False for a file of another format.
    pub(super) is_safetensors: bool,
}

impl Restored {
    /// Returns whether the file has the format that `name` states. Only then is it
    /// offered under this name.
    pub(super) fn fits(&self, name: &str) -> bool {
        has_other_extension(name) != self.is_safetensors
    }
}

/// The packed files of the upstream, cached by the identities of their bytes.
pub(super) struct PackedFiles {
    upstream: Arc<Upstream>,
    engine: Engine,
    pub(super) decoded: Arc<DecodedTensors>,
    metrics: Arc<Metrics>,
    next_id: AtomicU64,
    keys: Arc<CacheKeys>,
    entries: Arc<EntryCache>,
    /// Proofs that a client may read the bytes of a file.
    proofs: AnswerCache<()>,
    /// Limits how many files are opened or hashed concurrently.
    openings: TaskLimit,
    kept: Arc<Kept>,
}

/// Memory limits for packed files, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Limit for decoded tensors.
    pub(super) cache_bytes: u64,
    /// Limit for cached blocks of the upstream's files.
    pub(super) upstream_cache_bytes: u64,
    /// Maximum length of a tensor, or block of a tensor, that can only be decoded as a
    /// whole.
    pub(super) max_tensor_bytes: u64,
}

/// Caches of packed files, shared by all clients that have proved that they may read
/// them.
struct Kept {
    blocks: Arc<Blocks>,
    /// Opened files whose source is [`PackedFiles::unreadable`].
    open: BoundedCache<Arc<str>, Arc<Packed>>,
    indexes: BoundedCache<Arc<str>, Arc<Vec<u8>>>,
    known: AnswerCache<Restored>,
}

impl Kept {
    /// Drops all cached data of a file whose bytes are not as expected: the upstream
    /// may have sent the bytes of another file, so the next request has to fetch them
    /// again.
    fn forget(&self, identity: &Arc<str>) {
        self.blocks.forget(identity);
        self.open.remove(identity);
        self.indexes.remove(identity);
        self.known.forget(&key(identity));
    }
}

/// Returns the estimated memory for the parsed header of a packed file, in bytes.
fn header_bytes(packed: &Arc<Packed>) -> u64 {
    let len_bytes = packed.layout().head().len() as u64;
    len_bytes.saturating_mul(INDEX_FACTOR).max(MIN_RECENT_BYTES)
}

fn key(identity: &str) -> super::answer_cache::Key {
    *blake3::hash(identity.as_bytes()).as_bytes()
}

/// A packed file together with the permissions of the client that requests it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) revision: &'a Revision,
    pub(super) path: &'a str,
    pub(super) entry: &'a Entry,
    pub(super) permissions: &'a Permissions,
    pub(super) client: IpAddr,
}

impl PackedFiles {
    /// Creates the caches. A proof that a client may read a file is trusted for
    /// `trust`.
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        engine: Engine,
        budget: Budget,
        (keys, entries): (&Arc<CacheKeys>, &Arc<EntryCache>),
        trust: Duration,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let decoded = DecodedTensors::new(budget.cache_bytes, Patience::default());
        let mut decoded = decoded.with_max_tensor(budget.max_tensor_bytes);
        if upstream.is_remote() {
            decoded = decoded.with_turns(TURNS, AHEAD);
        }
        Self {
            upstream: Arc::clone(upstream),
            engine,
            decoded: Arc::new(decoded),
            metrics: Arc::clone(metrics),
            next_id: AtomicU64::new(0),
            keys: Arc::clone(keys),
            entries: Arc::clone(entries),
            proofs: AnswerCache::new(trust),
            openings: TaskLimit::new(MAX_OPENINGS, MAX_OPENINGS / 2),
            kept: Arc::new(Kept {
                blocks: Arc::new(Blocks::new(budget.upstream_cache_bytes, metrics)),
                open: bounded_cache(MAX_RECENT_BYTES, MIN_RECENT_BYTES, header_bytes),
                indexes: bounded_cache(MAX_RECENT_BYTES, MIN_RECENT_BYTES, |index| {
                    (index.len() as u64).max(MIN_RECENT_BYTES)
                }),
                known: AnswerCache::new(Duration::MAX),
            }),
        }
    }

    /// Returns a packed file that is read with the client's permissions, and the file
    /// that it restores.
    pub(super) async fn packed(
        &self,
        file: &Named<'_>,
    ) -> Result<(Arc<Packed>, Restored), Refusal> {
        let opened = tokio::try_join!(self.prove(file), self.opened(file));
        let ((), packed) = opened.inspect_err(|_| self.distrust(file))?;
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let cell = self.kept.known.cell(key(&identity));
        let restored = cell.get_or_try_init(|| self.describe(file, &identity, &packed));
        let restored = restored.await?.clone();
        Ok((packed, restored))
    }

    /// Returns the file that a packed one restores, or `None` if it restores no single
    /// file.
    pub(super) async fn restored(&self, file: &Named<'_>) -> Result<Option<Restored>, Refusal> {
        let cell = self.kept.known.cell(key(&file.entry.identity));
        if let Some(known) = cell.get() {
            self.prove(file).await?;
            return Ok(Some(known.clone()));
        }
        match self.packed(file).await {
            Ok((_, restored)) => Ok(Some(restored)),
            // The file is a delta from another checkpoint, or in a format that was
            // never one file. The answer is not cached, because one bad transfer may
            // have caused it.
            Err(refusal) if refusal.is_unsupported() => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Stores the SHA-256 of a restored file that was computed while it was sent.
    pub(super) fn note_sha256(&self, identity: &str, restored: &Restored, sha256: String) {
        let key = key(identity);
        self.kept.known.forget(&key);
        let restored = Restored {
            sha256: Some(sha256),
            ..restored.clone()
        };
        // A concurrent answer may have stored the same digest.
        let _ = self.kept.known.cell(key).set(restored);
    }

    /// Checks that this client may read a file before it receives bytes that were
    /// fetched for other clients.
    async fn prove(&self, file: &Named<'_>) -> Result<(), Refusal> {
        let Named {
            revision,
            path,
            entry,
            permissions,
            ..
        } = *file;
        let key = self.keys.key(revision, path, permissions, &entry.identity);
        let cell = self.proofs.cell(key);
        let proved =
            cell.get_or_try_init(|| self.upstream.prove(revision, path, entry, permissions));
        proved.await.copied()
    }

    /// Drops the cached entry of the file, which the refusal has shown to be outdated.
    fn distrust(&self, file: &Named<'_>) {
        self.entries
            .forget(file.revision, file.path, file.permissions);
    }

    async fn opened(&self, file: &Named<'_>) -> Result<Arc<Packed>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let open = async {
            let entry = self.pinned(file).await?;
            let file = &Named {
                entry: &entry,
                ..*file
            };
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let source = self.source(file, &identity);
            let nothing = Arc::new(self.unreadable(file, &identity));
            self.metrics.opened_files.inc();
            let opened = self.openings.run(file.client, async {
                let packed = Packed::open(&self.engine, source, id).await?;
                Ok(Arc::new(packed.with_source(nothing, Arc::new(|| ()))))
            });
            opened.await.inspect_err(|_| self.kept.forget(&identity))
        };
        let opened = self.kept.open.get_or_insert_async(&identity, open).await?;
        let source = Arc::new(self.source(file, &identity));
        let kept = Arc::clone(&self.kept);
        let on_failure = Arc::new(move || kept.forget(&identity));
        Ok(Arc::new(opened.with_source(source, on_failure)))
    }

    /// Returns the length and tag of the restored file. Decodes a short file to hash
    /// it.
    async fn describe(
        &self,
        file: &Named<'_>,
        identity: &str,
        packed: &Arc<Packed>,
    ) -> Result<Restored, Refusal> {
        let len_bytes = packed.layout().len_bytes();
        let is_safetensors = packed.restores_safetensors();
        if len_bytes > HASHED_BYTES {
            return Ok(Restored {
                len_bytes,
                tag: opaque_tag(identity),
                sha256: None,
                is_safetensors,
            });
        }
        let sha256 = self.openings.run(file.client, async {
            let restored = packed.restore().await?;
            on_thread(move || Ok(hex(&Sha256::digest(restored)))).await
        });
        let sha256 = sha256.await?;
        if packed.sha256().is_some_and(|claimed| claimed != sha256) {
            return Err(Refusal::of_file(file.path, FALSE_DIGEST));
        }
        Ok(Restored {
            len_bytes,
            tag: sha256.clone(),
            sha256: Some(sha256),
            is_safetensors,
        })
    }

    /// Returns the index of safetensors files that an index of packed files restores.
    pub(super) async fn index(&self, file: &Named<'_>) -> Result<Arc<Vec<u8>>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let read = tokio::try_join!(self.prove(file), self.read_index(file, &identity));
        let ((), text) = read.inspect_err(|_| self.distrust(file))?;
        Ok(text)
    }

    async fn read_index(
        &self,
        file: &Named<'_>,
        identity: &Arc<str>,
    ) -> Result<Arc<Vec<u8>>, Refusal> {
        let read = async {
            let entry = self.pinned(file).await?;
            let file = &Named {
                entry: &entry,
                ..*file
            };
            let source = self.source(file, identity);
            let made = self.openings.run(file.client, async {
                if source.len_bytes() > MAX_INDEX_BYTES {
                    let detail = "the index is too long";
                    return Err(Error::place(file.path)(zstn_core::Error::limit(detail)));
                }
                let text = source.read(0..source.len_bytes()).await?;
                let path = file.path.to_owned();
                let index = on_thread(move || unpacked_index_of(&path, text)).await?;
                Ok(Arc::new(index))
            });
            made.await.inspect_err(|_| self.kept.forget(identity))
        };
        self.kept.indexes.get_or_insert_async(identity, read).await
    }

    /// Returns the entry of the file in a specific commit. A list of a branch may be
    /// outdated, and newer bytes must not be cached under the old identity, because all
    /// clients share the cache.
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
                name: format!("{}/{}", file.revision.repository, file.path),
                detail: ": it was listed with other contents".into(),
            })),
        }
    }

    fn source(&self, file: &Named<'_>, identity: &Arc<str>) -> CachedSource {
        let upstream = Arc::clone(&self.upstream);
        let (mut revision, path) = (file.revision.clone(), file.path.to_owned());
        // The commit replaces a branch name, because the branch may move before the
        // last byte is read.
        if let Some(commit) = &file.entry.commit {
            revision.name.clone_from(commit);
        }
        let (permissions, entry) = (file.permissions.clone(), file.entry.clone());
        let file_of_client = Arc::new((upstream, revision, path, entry, permissions));
        self.cached(file, identity, move || {
            let file = Arc::clone(&file_of_client);
            Box::pin(async move {
                let (upstream, revision, path, entry, permissions) = &*file;
                upstream.open(revision, path, entry, permissions).await
            })
        })
    }

    /// Returns a source that fails to open. The shared cache holds files with this
    /// source, because the permissions of a client must not outlive its request.
    fn unreadable(&self, file: &Named<'_>, identity: &Arc<str>) -> CachedSource {
        let path = file.path.to_owned();
        self.cached(file, identity, move || {
            let error = Error::Usage(format!("{path} is not open for anybody"));
            Box::pin(ready(Err(error)))
        })
    }

    fn cached(
        &self,
        file: &Named<'_>,
        identity: &Arc<str>,
        opener: impl Fn() -> Opening + Send + Sync + 'static,
    ) -> CachedSource {
        let name = format!("{}/{}", file.revision.repository, file.path);
        CachedSource::new(
            &self.kept.blocks,
            name,
            identity,
            file.entry.len_bytes,
            Box::new(opener),
        )
    }
}

/// The error for a file whose restored bytes do not have the SHA-256 that it contains.
pub(super) const FALSE_DIGEST: &str =
    "the SHA-256 that it contains does not match the file that it restores";

/// Returns the tag of a file whose digest is unknown, derived from the identity of the
/// packed file. Its prefix keeps clients from mistaking it for a digest.
fn opaque_tag(identity: &str) -> String {
    format!("zstn-{}", &blake3::hash(identity.as_bytes()).to_hex()[..32])
}
