//! Sources of bytes: files, streams, servers and object stores.

use std::borrow::Cow;
use std::ops::Range;

use crate::{Error, Result};

mod address;
mod arriving_safetensors;
#[cfg(feature = "async")]
mod async_source;
mod blocking_http;
mod byte_stream;
mod closed_file;
pub(crate) mod data_shard;
mod file;
mod http;
mod hub;
mod input;
mod joined;
mod local;
mod location;
#[cfg(feature = "http")]
mod merged;
mod mixed;
mod open_location;
pub(crate) mod parallel;
mod range_reads;
mod read_ahead;
pub mod regular;
mod scheme;
pub mod store;
mod version;

pub use self::http::HttpOptions;
#[cfg(feature = "http")]
pub use self::http::{Attempts, Failure, wait};
#[cfg(feature = "http")]
pub use self::http::{HttpObserver, HttpRequest, Remote, put, trust_certificates};
pub use address::PLAIN;
pub(crate) use address::is_same;
pub(crate) use arriving_safetensors::{Arriving, Begun};
#[cfg(feature = "async")]
pub(crate) use async_source::blocking;
#[cfg(feature = "async")]
pub use async_source::on_thread;
#[cfg(feature = "async")]
pub use async_source::{AsyncSource, BlockingSource, Reading};
pub(crate) use blocking_http::check_absent;
pub use blocking_http::put_watched;
#[doc(hidden)]
pub use byte_stream::Feed;
pub(crate) use closed_file::ClosedFile;
pub use file::FileSource;
pub use hub::offline;
#[cfg(feature = "http")]
#[doc(hidden)]
pub use hub::{RepoKind, Repository};
pub use input::Input;
pub use local::Local;
pub use location::Location;
#[cfg(feature = "async")]
pub(crate) use location::if_any;
pub(crate) use mixed::{Mixed, source_header};
#[cfg(feature = "async")]
pub(crate) use range_reads::check_lens;
pub(crate) use range_reads::{Wanted, read_parts, read_wanted};
pub use scheme::is_server;
pub use scheme::is_store;
#[cfg(feature = "store")]
pub use store::ObjectStoreSource;
pub use version::FileId;
#[cfg(feature = "store")]
pub use zstn_store::object_store;

/// The name of the file that describes a model, in the folder of its weights.
pub(crate) const CONFIG: &str = "config.json";

/// Bytes that can be read at any offset.
pub trait Source: Send + Sync {
    /// Returns the path or address, for messages.
    fn name(&self) -> &str;

    /// Returns the total length in bytes.
    fn len_bytes(&self) -> u64;

    /// Returns all bytes of `range`, or an error.
    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>>;

    /// Reads the bytes from the offset `start` into `out`, which is filled completely.
    /// The default implementation copies the result of [`Source::read`].
    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let end = start.saturating_add(out.len() as u64);
        let bytes = self.read(start..end)?;
        if bytes.len() != out.len() {
            let detail = format!(
                "{} gave {} bytes of {start}..{end}",
                self.name(),
                bytes.len()
            );
            return Err(zstn_core::Error::invalid_input(detail).into());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    /// Returns the bytes of each of `ranges`, in the same order. Ranges may be empty
    /// and may overlap. The default implementation reads them sequentially. A source
    /// that sends a request for each read may read several at the same time, and merge
    /// close ranges into one request, as [`Remote`] does.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        let reads = ranges.iter().map(|range| self.read(range.clone()));
        reads.collect()
    }

    /// Reads `ranges` like [`Source::read_ranges`], for a caller that compares all of
    /// these bytes with checksums before it uses them. Several servers behind one
    /// address may give one file different validators (`ETag`, `Last-Modified`). Here,
    /// validators that differ from the validators of the first response are not an
    /// error; [`Source::other_version`] reports them. The default implementation calls
    /// [`Source::read_ranges`].
    #[doc(hidden)]
    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.read_ranges(ranges)
    }

    /// Returns the [`Error::Changed`] to report if bytes of [`Source::read_compared`]
    /// do not match their checksums; `None` if all of them came with the same
    /// validators. Once it returns an error, all reads that are not compared with
    /// checksums fail. The default is `None`.
    #[doc(hidden)]
    fn other_version(&self) -> Option<Error> {
        None
    }

    /// Returns an address that always refers to the version of the file that is read,
    /// if the address by which it was opened may later refer to another version. For
    /// `hf://` addresses, this is the address in a commit. Other files of the same
    /// version are its siblings. The default is `None`.
    fn pinned_location(&self) -> Option<Location> {
        None
    }

    /// Returns whether reads spend most of their time waiting for another machine.
    /// Several such sources are read at the same time, on separate threads. The default
    /// is `false`.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns whether reads return bytes that are already in memory, at no cost. The
    /// default is `false`.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Returns whether all reads are certain to return bytes of one version of the
    /// file, or an error. The default is `true`; a server whose responses do not state
    /// their version returns `false`. A file at such an address is downloaded in one
    /// response if all of it is needed.
    fn is_one_version(&self) -> bool {
        true
    }

    /// Returns the identities of the local files that the bytes come from, which an
    /// output must not replace.
    fn file_ids(&self) -> &[FileId] {
        &[]
    }

    /// Returns [`Error::Changed`] if the bytes may come from different versions of the
    /// file, because it was written to after it was opened. Called after all reads,
    /// before a result made from them is returned.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

impl<T: Source + ?Sized> Source for std::sync::Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        (**self).read(range)
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        (**self).read_into(start, out)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        (**self).read_ranges(ranges)
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        (**self).read_compared(ranges)
    }

    fn other_version(&self) -> Option<Error> {
        (**self).other_version()
    }

    fn pinned_location(&self) -> Option<Location> {
        (**self).pinned_location()
    }

    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }

    fn is_in_memory(&self) -> bool {
        (**self).is_in_memory()
    }

    fn is_one_version(&self) -> bool {
        (**self).is_one_version()
    }

    fn file_ids(&self) -> &[FileId] {
        (**self).file_ids()
    }

    fn check_unchanged(&self) -> Result<()> {
        (**self).check_unchanged()
    }
}

/// Refuses a `range` that is not inside `source`.
fn check_inside(source: &dyn Source, range: &Range<u64>) -> Result<()> {
    if range.start <= range.end && range.end <= source.len_bytes() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} has no bytes {}..{}",
        source.name(),
        range.start,
        range.end
    )))
}
