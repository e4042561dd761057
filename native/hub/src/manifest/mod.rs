//! Plans of work on many files, and what became of them.
//!
//! A plan is a file with a JSON object per line, a [`Row`] for every file to pack.
//! Its key is made of what determines the packed bytes, so that files of equal
//! content are one piece of work, whoever does it and in whatever repository they
//! are. [`Results`] are files named after keys, in a folder or an object store,
//! which are created on condition that they are not there: of two machines that
//! worked on the same key, the second learns that it was not needed.

mod entry;
mod key;
mod plan;
mod results;
mod row;
mod share;

pub use entry::{Class, Done, Failed};
pub(crate) use key::hex;
#[cfg(feature = "worker")]
pub(crate) use key::hex_digest;
pub use key::{FORMAT, key, key_against};
pub use plan::{load_plan, read_plan};
#[cfg(feature = "worker")]
pub(crate) use results::write_json;
pub use results::{ListedResult, Results};
pub use row::Row;
pub use share::{Shard, shard};
