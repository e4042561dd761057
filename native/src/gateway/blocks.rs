//! Bytes of upstream files in memory, for the next tensor or request that needs
//! them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zstn_core::bytes::index;

use super::metrics::Metrics;
use crate::source::Source;
use crate::{Error, Result};

/// Files are fetched and kept in blocks of this length, in bytes.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks of upstream files, at most a number of bytes of them.
pub(super) struct Blocks {
    limit_bytes: u64,
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

/// The name of the file's bytes, and the number of the block.
type Key = (Arc<str>, u64);

#[derive(Default)]
struct State {
    blocks: HashMap<Key, (u64, Arc<[u8]>)>,
    /// By when they were used last.
    order: BTreeMap<u64, Key>,
    held_bytes: u64,
    uses: u64,
}

impl Blocks {
    pub(super) fn new(limit_bytes: u64, metrics: &Arc<Metrics>) -> Self {
        Self {
            limit_bytes,
            state: Mutex::default(),
            metrics: Arc::clone(metrics),
        }
    }

    fn get(&self, key: &Key) -> Option<Arc<[u8]>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let now = state.uses;
        let (used, block) = state.blocks.get_mut(key)?;
        let before = std::mem::replace(used, now);
        let block = Arc::clone(block);
        state.order.remove(&before);
        state.order.insert(now, key.clone());
        Some(block)
    }

    /// Drops all blocks of a file.
    pub(super) fn forget(&self, identity: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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
    }

    fn put(&self, key: Key, block: Arc<[u8]>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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
        let held_bytes = i64::try_from(state.held_bytes).unwrap_or(i64::MAX);
        self.metrics.upstream_cache_bytes.set(held_bytes);
    }
}

/// Opens a file with the permissions of one client.
type Opener = Box<dyn Fn() -> Result<Box<dyn Source>> + Send + Sync>;

/// A file of the upstream, whose bytes are fetched with the permissions of one
/// client and kept for all that may read it. It is opened when a byte is missing.
pub(super) struct CachedSource {
    blocks: Arc<Blocks>,
    name: String,
    identity: Arc<str>,
    len_bytes: u64,
    opener: Opener,
    opened: OnceLock<Box<dyn Source>>,
}

impl CachedSource {
    /// A file called `name` in messages, whose bytes are known as `identity`.
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
            opened: OnceLock::new(),
        }
    }

    fn opened(&self) -> Result<&dyn Source> {
        if let Some(opened) = self.opened.get() {
            return Ok(&**opened);
        }
        let opened = (self.opener)()?;
        if opened.len_bytes() != self.len_bytes {
            return Err(Error::Changed {
                name: self.name.clone(),
                detail: format!(
                    ": it has {} bytes, not {}",
                    opened.len_bytes(),
                    self.len_bytes
                ),
            });
        }
        Ok(&**self.opened.get_or_init(|| opened))
    }

    fn block(&self, number: u64) -> Range<u64> {
        let start = number * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.len_bytes)
    }

    /// Fetches the blocks of these numbers, which follow each other.
    fn fetch(&self, numbers: Range<u64>) -> Result<Vec<Arc<[u8]>>> {
        let range = self.block(numbers.start).start..self.block(numbers.end - 1).end;
        let bytes = self.opened()?.read(range.clone())?;
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
            let key = |number| (Arc::clone(&self.identity), number);
            if let Some(block) = self.blocks.get(&key(number)) {
                add(number, &block);
                number += 1;
                continue;
            }
            // Missing blocks that follow each other come by one request.
            let first = number;
            let mut kept = None;
            number += 1;
            while number < end {
                kept = self.blocks.get(&key(number));
                if kept.is_some() {
                    break;
                }
                number += 1;
            }
            for (missing, block) in (first..number).zip(self.fetch(first..number)?) {
                add(missing, &block);
            }
            if let Some(block) = kept {
                add(number, &block);
                number += 1;
            }
        }
        Ok(Cow::Owned(out))
    }

    fn is_remote(&self) -> bool {
        true
    }
}
