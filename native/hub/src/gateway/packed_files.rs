//! Packed files of the upstream, and the files that they restore.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::blocks::{Blocks, CachedSource};
use super::metrics::Metrics;
use super::recent::Recent;
use super::request::Revision;
use super::trusted::{Entries, Secret, Trusted};
use super::turns::Turns;
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use crate::manifest::hex;
use zstn::internals::unpacked_index_of;
use zstn::source::{Input, Source};
use zstn::{Engine, Error};
use zstn_serve::unpacked::{DecodedTensors, Packed, Patience};

/// Tensors that are fetched and decoded at a time from another machine. Those that
/// decode share the threads of the engine.
const TURNS: usize = 32;

/// Tensors that are fetched for a request before it gets to them.
const AHEAD: usize = 8;

/// Files that are opened at a time: half of them for one address.
const MAX_OPENINGS: usize = 64;

/// The longest index of shards, in bytes.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// Memory for the indexes of files that were used last, and for the texts of indexes of
/// shards, in bytes each.
const MAX_RECENT_BYTES: u64 = 256 << 20;

/// A restored file of at most this length is decoded when it is opened, and named by the
/// SHA-256 of its bytes. A longer one gets its SHA-256 when a client has read it whole.
const HASHED_BYTES: u64 = 8 << 20;

/// Times that a tensor takes in memory what it takes in the header of its file.
const INDEX_FACTOR: u64 = 8;

/// The file that a packed one restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restored {
    pub(super) len_bytes: u64,
    /// The name of its bytes. It depends on the packed file alone, so that all gateways
    /// give the same one at all times: the SHA-256 for a file of at most `HASHED_BYTES`,
    /// and otherwise a digest of the packed file's identity.
    pub(super) tag: String,
    /// The SHA-256 of its bytes as this process has computed it. What a packed file
    /// claims about itself is not repeated.
    pub(super) sha256: Option<String>,
}

/// Packed files by the identities of their bytes.
pub(super) struct PackedFiles {
    upstream: Arc<Upstream>,
    engine: Engine,
    pub(super) decoded: Arc<DecodedTensors>,
    metrics: Arc<Metrics>,
    next_id: AtomicU64,
    secret: Arc<Secret>,
    entries: Arc<Entries>,
    /// Proofs that a client may read the bytes of a file.
    proofs: Trusted<()>,
    /// Files that are opened, or hashed, at a time.
    openings: Turns,
    kept: Arc<Kept>,
}

/// Memory that packed files may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// For decoded tensors.
    pub(super) cache_bytes: u64,
    /// For bytes of the upstream.
    pub(super) upstream_cache_bytes: u64,
    /// For a part of a tensor that can only be decoded as a whole.
    pub(super) max_tensor_bytes: u64,
}

/// Caches of packed files, shared by all clients that have proved that they may read
/// them.
struct Kept {
    blocks: Arc<Blocks>,
    /// Without a way to their bytes.
    open: Recent<Arc<str>, Arc<Packed>>,
    indexes: Recent<Arc<str>, Arc<Vec<u8>>>,
    known: Trusted<Restored>,
}

impl Kept {
    /// Drops everything about a file whose bytes are not what they should be: an
    /// upstream may have mixed them up, and the next request has to try again.
    fn forget(&self, identity: &Arc<str>) {
        self.blocks.forget(identity);
        self.open.forget(identity);
        self.indexes.forget(identity);
        self.known.forget(&key(identity));
    }
}

fn key(identity: &str) -> super::trusted::Key {
    *blake3::hash(identity.as_bytes()).as_bytes()
}

/// A packed file, as one client may read it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) revision: &'a Revision,
    pub(super) path: &'a str,
    pub(super) entry: &'a Entry,
    pub(super) permissions: &'a Permissions,
    pub(super) client: IpAddr,
}

impl PackedFiles {
    /// Trusts a proof that a client may read a file for the time `trust`.
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        engine: Engine,
        budget: Budget,
        (secret, entries): (&Arc<Secret>, &Arc<Entries>),
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
            secret: Arc::clone(secret),
            entries: Arc::clone(entries),
            proofs: Trusted::new(trust),
            openings: Turns::new(MAX_OPENINGS, MAX_OPENINGS / 2),
            kept: Arc::new(Kept {
                blocks: Arc::new(Blocks::new(budget.upstream_cache_bytes, metrics)),
                open: Recent::new(MAX_RECENT_BYTES),
                indexes: Recent::new(MAX_RECENT_BYTES),
                known: Trusted::new(Duration::MAX),
            }),
        }
    }

    /// Returns a packed file that is read with the client's permissions, and what it
    /// restores.
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

    /// Returns what a packed file restores; `None` if that is not a file.
    pub(super) async fn restored(&self, file: &Named<'_>) -> Result<Option<Restored>, Refusal> {
        let cell = self.kept.known.cell(key(&file.entry.identity));
        if let Some(known) = cell.get() {
            self.prove(file).await?;
            return Ok(Some(known.clone()));
        }
        match self.packed(file).await {
            Ok((_, restored)) => Ok(Some(restored)),
            // A difference from another checkpoint, or a format that never was one
            // file. One bad transfer may have made it look so, and it is not
            // remembered.
            Err(refusal) if refusal.is_unsupported() => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Notes the SHA-256 of the bytes that a file restores, as they were sent.
    pub(super) fn note_sha256(&self, identity: &str, restored: &Restored, sha256: String) {
        let key = key(identity);
        self.kept.known.forget(&key);
        let restored = Restored {
            sha256: Some(sha256),
            ..restored.clone()
        };
        // Another answer may have noted the same.
        let _ = self.kept.known.cell(key).set(restored);
    }

    /// Makes sure that this client may read the bytes of a file, before it gets those
    /// that were read for others.
    async fn prove(&self, file: &Named<'_>) -> Result<(), Refusal> {
        let Named {
            revision,
            path,
            entry,
            permissions,
            ..
        } = *file;
        let key = self
            .secret
            .key(revision, path, permissions, &entry.identity);
        let cell = self.proofs.cell(key);
        let proved =
            cell.get_or_try_init(|| self.upstream.prove(revision, path, entry, permissions));
        proved.await.copied()
    }

    /// Drops the answers that a refusal has shown to be of the past.
    fn distrust(&self, file: &Named<'_>) {
        self.entries
            .forget(file.revision, file.path, file.permissions);
    }

    async fn opened(&self, file: &Named<'_>) -> Result<Arc<Packed>, Refusal> {
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
            let opened = self.openings.run(file.client, move || {
                let packed = Packed::open(&engine, Input::from(source), id)?;
                Ok(Arc::new(packed.with_source(nothing, Arc::new(|| ()))))
            });
            opened.await.inspect_err(|_| self.kept.forget(&identity))
        });
        let opened = opened.await?;
        let weight = opened.layout().head().len() as u64;
        self.kept
            .open
            .weigh(&identity, weight.saturating_mul(INDEX_FACTOR));
        let (source, kept) = (self.source(file, &identity), Arc::clone(&self.kept));
        let on_failure = Arc::new(move || kept.forget(&identity));
        Ok(Arc::new(opened.with_source(source, on_failure)))
    }

    /// Finds out what a file restores, which means to decode a short one.
    async fn describe(
        &self,
        file: &Named<'_>,
        identity: &str,
        packed: &Arc<Packed>,
    ) -> Result<Restored, Refusal> {
        let len_bytes = packed.layout().len_bytes();
        if len_bytes > HASHED_BYTES {
            return Ok(Restored {
                len_bytes,
                tag: opaque_tag(identity),
                sha256: None,
            });
        }
        let (hashed, claimed) = (Arc::clone(packed), packed.sha256());
        let sha256 = self.openings.run(file.client, move || {
            let mut hasher = Sha256::new();
            hashed.each_part(&mut |part| hasher.update(part))?;
            Ok(hex(&hasher.finalize()))
        });
        let sha256 = sha256.await?;
        if claimed.is_some_and(|claimed| claimed != sha256) {
            return Err(Refusal::of_file(file.path, FALSE_DIGEST));
        }
        Ok(Restored {
            len_bytes,
            tag: sha256.clone(),
            sha256: Some(sha256),
        })
    }

    /// Returns the text of the index of safetensors files that one of packed files
    /// restores.
    pub(super) async fn index(&self, file: &Named<'_>) -> Result<Arc<Vec<u8>>, Refusal> {
        let identity: Arc<str> = file.entry.identity.as_str().into();
        let cell = self.kept.indexes.cell(&identity);
        let read = tokio::try_join!(self.prove(file), self.read_index(file, &identity, &cell));
        let ((), text) = read.inspect_err(|_| self.distrust(file))?;
        self.kept.indexes.weigh(&identity, text.len() as u64);
        Ok(text)
    }

    async fn read_index(
        &self,
        file: &Named<'_>,
        identity: &Arc<str>,
        cell: &OnceCell<Arc<Vec<u8>>>,
    ) -> Result<Arc<Vec<u8>>, Refusal> {
        let made = cell.get_or_try_init(|| async {
            let entry = self.pinned(file).await?;
            let file = &Named {
                entry: &entry,
                ..*file
            };
            let (source, path) = (self.source(file, identity), file.path.to_owned());
            let made = self.openings.run(file.client, move || {
                if source.len_bytes() > MAX_INDEX_BYTES {
                    let detail = "the index is too long";
                    return Err(Error::place(&path)(zstn_core::Error::limit(detail)));
                }
                let text = source.read(0..source.len_bytes())?.into_owned();
                Ok(Arc::new(unpacked_index_of(&path, text)?))
            });
            made.await.inspect_err(|_| self.kept.forget(identity))
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
        opener: impl Fn() -> zstn::Result<Box<dyn Source>> + Send + Sync + 'static,
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

/// What is wrong with a file that does not restore what it promises.
pub(super) const FALSE_DIGEST: &str =
    "the SHA-256 that it contains is not that of the file that it restores";

/// Returns a tag for a file whose digest is not known, made from the identity of the
/// bytes that determine it. No client takes it for a digest.
fn opaque_tag(identity: &str) -> String {
    format!("zstn-{}", &blake3::hash(identity.as_bytes()).to_hex()[..32])
}
