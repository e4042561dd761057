//! Where bytes come from: a file, standard input or a server.

use std::borrow::Cow;
use std::ops::Range;

use crate::Result;

mod http;
mod map;
mod spool;

pub use http::{HttpOptions, Remote, download, download_with};
pub use map::Map;
#[cfg(feature = "serve")]
pub(crate) use spool::PLAIN;
pub use spool::Place;

/// Bytes that can be read anywhere.
pub trait Source: Send + Sync {
    /// Path or address, for messages.
    fn name(&self) -> &str;

    /// Length of the whole.
    fn len_bytes(&self) -> u64;

    /// The bytes of `range`, all of them or an error.
    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>>;
}
