//! Plans for packing many files, and their results.
//!
//! A plan is a file with one JSON object per line: a [`Row`] for every file to pack.
//! The row's key is derived from everything that determines the packed bytes, so that
//! equal files share one result, regardless of repository and machine. [`Results`] are
//! files named by keys, in a local or object-store folder. They are created only if
//! they do not exist: if two machines have packed the same file, the second write
//! reports that a result exists.

mod bases;
mod plan;
mod results;

#[cfg(feature = "gateway")]
pub(crate) use bases::KnownBases;
pub use bases::{Base, Bases};
#[cfg(any(feature = "gateway", feature = "worker"))]
pub(crate) use plan::hex;
pub use plan::{FORMAT, Row, key, key_against};
pub use plan::{PlanShare, load_plan, read_plan, shard, share};
#[cfg(feature = "worker")]
pub(crate) use plan::{hex_digest, repeated};
#[cfg(feature = "worker")]
pub(crate) use results::write_json;
pub use results::{Class, Done, Failed, ListedResult, Results};
