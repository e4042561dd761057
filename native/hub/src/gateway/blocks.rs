//! An in-memory cache of blocks of upstream files, shared by all tensors and requests.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use zstn_core::bytes::index;

use super::metrics::Metrics;
use zstn::source::Source;
use zstn::{Error, Result};

/// Length of a cached block, in bytes. Files are fetched block by block.
const BLOCK_BYTES: u64 = 256 << 10;

/// A least-recently-used cache of blocks, limited to `limit_bytes`.
pub(super) struct Blocks {
    limit_bytes: u64,
    state: Mutex<State>,
    fetched: Condvar,
    metrics: Arc<Metrics>,
}

/// The identity of the file's bytes and the number of the block.
type Key = (Arc<str>, u64);

#[derive(Default)]
struct State {
    blocks: HashMap<Key, (u64, Arc<[u8]>)>,
    /// The cached blocks ordered by their last use.
    order: BTreeMap<u64, Key>,
    held_bytes: u64,
    uses: u64,
    /// Blocks that a thread is fetching.
    pending: HashSet<Key>,
}

/// The next step of a read.
enum Step {
    Use(Arc<[u8]>),
    /// Fetch the blocks before this number.
    Fetch(u64),
}

impl Blocks {
    pub(super) fn new(limit_bytes: u64, metrics: &Arc<Metrics>) -> Self {
        Self {
            limit_bytes,
            state: Mutex::default(),
            fetched: Condvar::new(),
            metrics: Arc::clone(metrics),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns block `number` of a file if it is cached. Otherwise returns the end of
    /// the run of missing blocks before `end`, which the caller must fetch. If another
    /// thread is fetching the block, waits for it.
    fn next(&self, identity: &Arc<str>, number: u64, end: u64) -> Step {
        let key = |number| (Arc::clone(identity), number);
        let mut state = self.state();
        loop {
            if let Some(block) = state.get(&key(number)) {
                return Step::Use(block);
            }
            if !state.pending.contains(&key(number)) {
                break;
            }
            let waited = self.fetched.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let is_missing = |number: &u64| {
            let key = key(*number);
            !state.blocks.contains_key(&key) && !state.pending.contains(&key)
        };
        let last = (number..end)
            .take_while(is_missing)
            .last()
            .unwrap_or(number);
        state.pending.extend((number..=last).map(key));
        Step::Fetch(last + 1)
    }

    /// Drops all cached blocks of a file.
    pub(super) fn forget(&self, identity: &str) {
        let mut state = self.state();
        let State {
            blocks,
            order,
            held_bytes,
            ..
        } = &mut *state;
        blocks.retain(|(known, _), (used, block)| {
            let is_kept = **known != *identity;
            if !is_kept {
                order.remove(used);
                *held_bytes -= block.len() as u64;
            }
            is_kept
        });
        self.note_held(*held_bytes);
    }

    fn put(&self, key: Key, block: Arc<[u8]>) {
        let mut state = self.state();
        state.uses += 1;
        let now = state.uses;
        state.held_bytes += block.len() as u64;
        state.order.insert(now, key.clone());
        if let Some((used, old)) = state.blocks.insert(key, (now, block)) {
            state.order.remove(&used);
            state.held_bytes -= old.len() as u64;
        }
        while state.held_bytes > self.limit_bytes
            && let Some((_, oldest)) = state.order.pop_first()
            && let Some((_, block)) = state.blocks.remove(&oldest)
        {
            state.held_bytes -= block.len() as u64;
        }
        self.note_held(state.held_bytes);
    }

    fn note_held(&self, held_bytes: u64) {
        let held_bytes = i64::try_from(held_bytes).unwrap_or(i64::MAX);
        self.metrics.upstream_cache_bytes.set(held_bytes);
    }
}

impl State {
    fn get(&mut self, key: &Key) -> Option<Arc<[u8]>> {
        self.uses += 1;
        let now = self.uses;
        let (used, block) = self.blocks.get_mut(key)?;
        let before = std::mem::replace(used, now);
        let block = Arc::clone(block);
        self.order.remove(&before);
        self.order.insert(now, key.clone());
        Some(block)
    }
}

/// Marks blocks as being fetched. When it is dropped, they are either cached or free to
/// be fetched again.
struct Pending<'a> {
    blocks: &'a Blocks,
    identity: &'a Arc<str>,
    numbers: Range<u64>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut state = self.blocks.state();
        for number in self.numbers.clone() {
            state.pending.remove(&(Arc::clone(self.identity), number));
        }
        drop(state);
        self.blocks.fetched.notify_all();
    }
}

/// Opens a file with the permissions of one client.
type Opener = Box<dyn Fn() -> Result<Box<dyn Source>> + Send + Sync>;

/// A file of the upstream. Its bytes are fetched with the permissions of one client and
/// cached for every client that may read the file. The file is opened when a block is
/// missing.
pub(super) struct CachedSource {
    blocks: Arc<Blocks>,
    name: String,
    identity: Arc<str>,
    len_bytes: u64,
    opener: Opener,
    opened: Mutex<Option<Arc<dyn Source>>>,
}

impl CachedSource {
    /// Creates a source that is called `name` in messages and whose bytes are cached
    /// under `identity`.
    pub(super) fn new(
        blocks: &Arc<Blocks>,
        name: String,
        identity: &Arc<str>,
        len_bytes: u64,
        opener: Opener,
    ) -> Self {
        Self {
            blocks: Arc::clone(blocks),
            name,
            identity: Arc::clone(identity),
            len_bytes,
            opener,
            opened: Mutex::default(),
        }
    }

    /// Returns the opened file. Concurrent callers wait until the first one has opened
    /// it.
    fn opened(&self) -> Result<Arc<dyn Source>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let new: Arc<dyn Source> = (self.opener)()?.into();
        if new.len_bytes() != self.len_bytes {
            let (found, expected) = (new.len_bytes(), self.len_bytes);
            return Err(Error::Changed {
                name: self.name.clone(),
                detail: format!(": it has {found} bytes, not {expected}"),
            });
        }
        Ok(Arc::clone(opened.insert(new)))
    }

    fn block(&self, number: u64) -> Range<u64> {
        let start = number * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.len_bytes)
    }

    /// Fetches the blocks of a contiguous range of numbers in one request and caches
    /// them.
    fn fetch(&self, numbers: Range<u64>) -> Result<Vec<Arc<[u8]>>> {
        let _pending = Pending {
            blocks: &self.blocks,
            identity: &self.identity,
            numbers: numbers.clone(),
        };
        let range = self.block(numbers.start).start..self.block(numbers.end - 1).end;
        let source = self.opened()?;
        let bytes = source.read(range.clone())?;
        self.blocks
            .metrics
            .upstream_bytes
            .inc_by(bytes.len() as u64);
        let blocks = numbers.map(|number| {
            let block = self.block(number);
            let inside = block.start - range.start..block.end - range.start;
            let block: Arc<[u8]> = zstn_core::bytes::part(&bytes, inside).into();
            let key = (Arc::clone(&self.identity), number);
            self.blocks.put(key, Arc::clone(&block));
            block
        });
        Ok(blocks.collect())
    }
}

impl Source for CachedSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.start > range.end || range.end > self.len_bytes {
            let (name, Range { start, end }) = (&self.name, range);
            return Err(Error::Usage(format!("{name} has no bytes {start}..{end}")));
        }
        let mut out = Vec::with_capacity(index(range.end - range.start));
        let end = range.end.div_ceil(BLOCK_BYTES);
        let mut number = range.start / BLOCK_BYTES;
        let mut add = |number: u64, block: &[u8]| {
            let all = self.block(number);
            let inside = range.start.max(all.start)..range.end.min(all.end);
            let inside = inside.start - all.start..inside.end - all.start;
            out.extend_from_slice(zstn_core::bytes::part(block, inside));
        };
        while number < end && !range.is_empty() {
            match self.blocks.next(&self.identity, number, end) {
                Step::Use(block) => {
                    add(number, &block);
                    number += 1;
                }
                // A run of missing blocks is fetched in one request.
                Step::Fetch(last) => {
                    for (number, block) in (number..last).zip(self.fetch(number..last)?) {
                        add(number, &block);
                    }
                    number = last;
                }
            }
        }
        Ok(Cow::Owned(out))
    }

    fn is_remote(&self) -> bool {
        true
    }
}
