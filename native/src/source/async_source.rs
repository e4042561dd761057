//! Sources that are read without blocking a thread.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

#[cfg(feature = "http")]
use super::Remote;
use super::parallel::READS_AT_ONCE;
use super::{Location, Source};
use crate::{Error, Result};

/// A read in progress. Dropping it ends the read.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Bytes that can be read at any offset without blocking a thread, for
/// [`AsyncReader`](crate::AsyncReader). The futures may be polled by any executor.
///
/// ```
/// use std::ops::Range;
/// use zstn::source::{AsyncSource, Reading};
///
/// struct InMemory(Vec<u8>);
///
/// impl AsyncSource for InMemory {
///     fn name(&self) -> &str {
///         "bytes in memory"
///     }
///
///     fn len_bytes(&self) -> u64 {
///         self.0.len() as u64
///     }
///
///     fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
///         let range = range.start as usize..range.end as usize;
///         Box::pin(async move { Ok(self.0[range].to_vec()) })
///     }
/// }
/// ```
pub trait AsyncSource: Send + Sync {
    /// Returns the path or address, for messages.
    fn name(&self) -> &str;

    /// Returns the total length in bytes.
    fn len_bytes(&self) -> u64;

    /// Reads all bytes of `range`, or fails.
    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>>;

    /// Reads each of `ranges`, and returns their bytes in the same order. Ranges may
    /// overlap. The default implementation reads up to 8 of them at the same time.
    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        let reads = ranges.iter().map(|range| self.read(range.clone()));
        let reads: Vec<_> = reads.collect();
        Box::pin(stream::iter(reads).buffered(READS_AT_ONCE).try_collect())
    }

    /// Reads `ranges` for a caller that compares all of these bytes with checksums, like
    /// [`Source::read_compared`].
    #[doc(hidden)]
    fn read_compared<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        self.read_ranges(ranges)
    }

    /// Returns the error for bytes of another version, like [`Source::other_version`].
    #[doc(hidden)]
    fn other_version(&self) -> Option<Error> {
        None
    }

    /// Returns an address that always refers to the version of the file that is read,
    /// like [`Source::pinned_location`]. The default is `None`.
    fn pinned_location(&self) -> Option<Location> {
        None
    }

    /// Returns [`Error::Changed`] if the bytes may come from different versions of the
    /// file, like [`Source::check_unchanged`]. This must not wait for the network.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the blocking source that this source reads on other threads. The default
    /// is `None`.
    #[doc(hidden)]
    fn as_blocking(&self) -> Option<&Arc<dyn Source>> {
        None
    }
}

/// A blocking [`Source`], such as a local file, that is read on threads for blocking
/// work.
#[derive(Clone)]
pub struct BlockingSource(Arc<dyn Source>);

impl BlockingSource {
    /// Returns a source whose bytes are read from `source`.
    pub fn new(source: impl Source + 'static) -> Self {
        Self(Arc::new(source))
    }
}

impl From<Arc<dyn Source>> for BlockingSource {
    fn from(source: Arc<dyn Source>) -> Self {
        Self(source)
    }
}

impl AsyncSource for BlockingSource {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
        let source = Arc::clone(&self.0);
        Box::pin(on_thread(move || Ok(source.read(range)?.into_owned())))
    }

    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        let (source, ranges) = (Arc::clone(&self.0), ranges.to_vec());
        Box::pin(on_thread(move || owned(source.read_ranges(&ranges))))
    }

    fn read_compared<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        let (source, ranges) = (Arc::clone(&self.0), ranges.to_vec());
        Box::pin(on_thread(move || owned(source.read_compared(&ranges))))
    }

    fn other_version(&self) -> Option<Error> {
        self.0.other_version()
    }

    fn pinned_location(&self) -> Option<Location> {
        self.0.pinned_location()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.0.check_unchanged()
    }

    fn as_blocking(&self) -> Option<&Arc<dyn Source>> {
        Some(&self.0)
    }
}

/// Returns a source that reads `source` and blocks the calling thread meanwhile.
pub(crate) fn blocking(source: &Arc<dyn AsyncSource>) -> Box<dyn Source> {
    match source.as_blocking() {
        Some(source) => Box::new(Arc::clone(source)),
        None => Box::new(Awaited(Arc::clone(source))),
    }
}

/// An asynchronous source whose reads block the calling thread. A thread that polls
/// futures must not call it.
struct Awaited(Arc<dyn AsyncSource>);

fn wait<T>(read: Reading<'_, T>) -> Result<T> {
    let read = zstn_net::runtime::block_on(read);
    read.map_err(|error| Error::io("start threads for reading", error))?
}

impl Source for Awaited {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        wait(self.0.read(range)).map(Cow::Owned)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        let read = wait(self.0.read_ranges(ranges))?;
        Ok(read.into_iter().map(Cow::Owned).collect())
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        let read = wait(self.0.read_compared(ranges))?;
        Ok(read.into_iter().map(Cow::Owned).collect())
    }

    fn other_version(&self) -> Option<Error> {
        self.0.other_version()
    }

    fn pinned_location(&self) -> Option<Location> {
        self.0.pinned_location()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> Result<()> {
        self.0.check_unchanged()
    }
}

fn owned(read: Result<Vec<Cow<'_, [u8]>>>) -> Result<Vec<Vec<u8>>> {
    Ok(read?.into_iter().map(Cow::into_owned).collect())
}

/// Runs `work` on a thread for blocking work. Dropping the future does not end the work.
///
/// # Errors
/// The errors of `work`, and an error if it panics or threads cannot be started.
#[doc(hidden)]
pub async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = zstn_net::runtime::handle();
    let runtime = runtime.map_err(|error| Error::io("start threads for reading", error))?;
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::io("read on another thread", io::Error::other(error))),
    }
}

/// Makes connections and timers available to `work`, whatever executor polls it.
#[cfg(feature = "http")]
pub(crate) fn within<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Reading<'a, T> {
    Box::pin(async move {
        let done = zstn_net::runtime::within(work).await;
        done.map_err(|error| Error::io("start threads for requests", error))?
    })
}

#[cfg(feature = "http")]
impl AsyncSource for Remote {
    fn name(&self) -> &str {
        Source::name(self)
    }

    fn len_bytes(&self) -> u64 {
        Source::len_bytes(self)
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
        within(self.fetch(range, false))
    }

    fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        within(async move { owned(self.fetch_ranges(ranges, false).await) })
    }

    fn read_compared<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
        within(async move { owned(self.fetch_ranges(ranges, true).await) })
    }

    fn other_version(&self) -> Option<Error> {
        Source::other_version(self)
    }

    fn pinned_location(&self) -> Option<Location> {
        Source::pinned_location(self)
    }
}
