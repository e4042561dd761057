//! In-memory caches that are bounded by the bytes they hold, and the cache of blocks of
//! upstream files, which all tensors and requests share.

use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::OnceCell;
use zstn_core::bytes::{index, part};

use super::metrics::Metrics;
use zstn::source::{AsyncSource, Reading};
use zstn::{Error, Result};

/// Length of a cached block, in bytes. Files are fetched block by block.
const BLOCK_BYTES: u64 = 256 << 10;

/// A cache that holds values of a limited number of bytes. Callers that request the same
/// missing value wait for the first one to compute it.
pub(super) type BoundedCache<K, V> = Cache<K, V, MemoryBytes<V>>;

/// A function that returns the memory for a cached value, in bytes.
#[derive(Clone)]
pub(super) struct MemoryBytes<V>(fn(&V) -> u64);

impl<K, V> Weighter<K, V> for MemoryBytes<V> {
    fn weight(&self, _: &K, value: &V) -> u64 {
        // Values without weight would never be dropped.
        self.0(value).max(1)
    }
}

/// Creates a cache for values of `limit_bytes` in total. `memory` returns the number of
/// bytes of a value, which is usually about `usual_bytes`. A value that is longer than
/// the limit is not cached.
pub(super) fn bounded_cache<K, V>(
    limit_bytes: u64,
    usual_bytes: u64,
    memory: fn(&V) -> u64,
) -> BoundedCache<K, V>
where
    K: Eq + Hash,
    V: Clone,
{
    let items = usize::try_from(limit_bytes / usual_bytes.max(1)).unwrap_or(usize::MAX);
    let options = OptionsBuilder::new()
        // With several shards, each would have its own limit.
        .shards(1)
        .estimated_items_capacity(items)
        .weight_capacity(limit_bytes)
        .build()
        .expect("both capacities are set");
    let lifecycle = DefaultLifecycle::default();
    Cache::with_options(
        options,
        MemoryBytes(memory),
        DefaultHashBuilder::default(),
        lifecycle,
    )
}

/// The identity of the file's bytes and the number of the block.
type Key = (Arc<str>, u64);

/// The cached blocks of all files of the upstream.
pub(super) struct Blocks {
    cache: BoundedCache<Key, Arc<[u8]>>,
    metrics: Arc<Metrics>,
}

impl Blocks {
    pub(super) fn new(limit_bytes: u64, metrics: &Arc<Metrics>) -> Self {
        Self {
            cache: bounded_cache(limit_bytes, BLOCK_BYTES, |block: &Arc<[u8]>| {
                block.len() as u64
            }),
            metrics: Arc::clone(metrics),
        }
    }

    /// Drops all cached blocks of a file.
    pub(super) fn forget(&self, identity: &str) {
        self.cache.retain(|(known, _), _| **known != *identity);
        self.note_bytes();
    }

    fn note_bytes(&self) {
        let bytes = i64::try_from(self.cache.weight()).unwrap_or(i64::MAX);
        self.metrics.upstream_cache_bytes.set(bytes);
    }
}

/// A file that is being opened with the permissions of one client.
pub(super) type Opening = Reading<'static, Arc<dyn AsyncSource>>;

/// A file of the upstream. Its bytes are fetched with the permissions of one client and
/// cached for every client that may read the file. The file is opened when a block is
/// missing.
pub(super) struct CachedSource {
    blocks: Arc<Blocks>,
    name: String,
    identity: Arc<str>,
    len_bytes: u64,
    opener: Box<dyn Fn() -> Opening + Send + Sync>,
    opened: OnceCell<Arc<dyn AsyncSource>>,
}

impl CachedSource {
    /// Creates a source that is called `name` in messages and whose bytes are cached
    /// under `identity`.
    pub(super) fn new(
        blocks: &Arc<Blocks>,
        name: String,
        identity: &Arc<str>,
        len_bytes: u64,
        opener: Box<dyn Fn() -> Opening + Send + Sync>,
    ) -> Self {
        Self {
            blocks: Arc::clone(blocks),
            name,
            identity: Arc::clone(identity),
            len_bytes,
            opener,
            opened: OnceCell::new(),
        }
    }

    /// Returns the opened file. Concurrent callers wait until the first one has opened
    /// it.
    async fn opened(&self) -> Result<&dyn AsyncSource> {
        let open = async || {
            let opened = (self.opener)().await?;
            let (found, expected) = (opened.len_bytes(), self.len_bytes);
            match found == expected {
                true => Ok(opened),
                false => Err(Error::Changed {
                    name: self.name.clone(),
                    detail: format!(": it has {found} bytes, not {expected}"),
                }),
            }
        };
        self.opened
            .get_or_try_init(open)
            .await
            .map(|opened| &**opened)
    }

    fn block(&self, number: u64) -> Range<u64> {
        let start = number * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.len_bytes)
    }

    /// Fetches the blocks of a contiguous range of numbers in one request, and returns
    /// them in order.
    async fn fetch(&self, numbers: Range<u64>) -> Result<Vec<Arc<[u8]>>> {
        let range = self.block(numbers.start).start..self.block(numbers.end - 1).end;
        let bytes = self.opened().await?.read(range.clone()).await?;
        self.blocks
            .metrics
            .upstream_bytes
            .inc_by(bytes.len() as u64);
        let blocks = numbers.map(|number| {
            let block = self.block(number);
            part(&bytes, block.start - range.start..block.end - range.start).into()
        });
        Ok(blocks.collect())
    }

    async fn read_blocks(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.start > range.end || range.end > self.len_bytes {
            let (name, Range { start, end }) = (&self.name, range);
            return Err(Error::Usage(format!("{name} has no bytes {start}..{end}")));
        }
        let mut out = Vec::with_capacity(index(range.end - range.start));
        let mut add = |number: u64, block: &[u8]| {
            let all = self.block(number);
            let inside = range.start.max(all.start)..range.end.min(all.end);
            let inside = inside.start - all.start..inside.end - all.start;
            out.extend_from_slice(part(block, inside));
        };
        let cache = &self.blocks.cache;
        let key = |number| (Arc::clone(&self.identity), number);
        let end = range.end.div_ceil(BLOCK_BYTES);
        let mut number = range.start / BLOCK_BYTES;
        while number < end && !range.is_empty() {
            // If another request is fetching this block, waits for it.
            let mut missing = match cache.get_value_or_guard_async(&key(number)).await {
                Ok(block) => {
                    add(number, &block);
                    number += 1;
                    continue;
                }
                Err(guard) => vec![guard],
            };
            // A run of missing blocks is fetched in one request. If it fails or is
            // dropped, waiting requests fetch the blocks themselves.
            let mut next = number + 1;
            while next < end
                && let GuardResult::Guard(guard) =
                    cache.get_value_or_guard(&key(next), Some(Duration::ZERO))
            {
                missing.push(guard);
                next += 1;
            }
            let fetched = self.fetch(number..next).await?;
            for ((number, block), guard) in (number..next).zip(fetched).zip(missing) {
                add(number, &block);
                // The block is not cached if the file has been dropped meanwhile.
                let _ = guard.insert(block);
            }
            self.blocks.note_bytes();
            number = next;
        }
        Ok(out)
    }
}

impl AsyncSource for CachedSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
        Box::pin(self.read_blocks(range))
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A file whose reads are counted, and wait until there are permits.
    struct Gated {
        reads: AtomicUsize,
        gate: Semaphore,
    }

    impl AsyncSource for Gated {
        fn name(&self) -> &str {
            "gated"
        }

        fn len_bytes(&self) -> u64 {
            10
        }

        fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                let _permit = self.gate.acquire().await;
                Ok(vec![7; index(range.end - range.start)])
            })
        }
    }

    #[test]
    fn a_fetch_is_shared_and_repeated_if_its_request_is_dropped() {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        runtime.block_on(async {
            let file = Arc::new(Gated {
                reads: AtomicUsize::new(0),
                gate: Semaphore::new(0),
            });
            let blocks = Arc::new(Blocks::new(1 << 20, &Arc::new(Metrics::default())));
            let read = || {
                let opened = Arc::clone(&file);
                let opener = move || -> Opening {
                    let opened: Arc<dyn AsyncSource> = opened.clone();
                    Box::pin(ready(Ok(opened)))
                };
                let (name, identity) = ("file".to_owned(), "identity".into());
                let source = CachedSource::new(&blocks, name, &identity, 10, Box::new(opener));
                tokio::spawn(async move { source.read(2..9).await })
            };
            let begun = async |count| {
                while file.reads.load(Ordering::SeqCst) < count {
                    tokio::task::yield_now().await;
                }
            };
            let first = read();
            begun(1).await;
            let others = [(); 3].map(|()| read());
            first.abort();
            begun(2).await;
            file.gate.add_permits(1);
            for other in others {
                assert_eq!(other.await.unwrap().unwrap(), [7; 7]);
            }
            assert_eq!(file.reads.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn cached_values_stay_within_the_limit() {
        let cache = bounded_cache::<u64, u64>(100, 10, |bytes| *bytes);
        for key in 0..1000 {
            cache.insert(key, 1 + key % 40);
            assert!(cache.weight() <= 100);
        }
        cache.insert(1000, 101);
        assert!(cache.get(&1000).is_none());
        assert!(cache.weight() <= 100);
    }
}
