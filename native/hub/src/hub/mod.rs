//! A client for writing to a model hub: revisions and their files, uploads of large
//! files, and commits.
//!
//! To read files, use `hf://` addresses ([`Location`](zstn::Location)); this module
//! has the calls for programs that add files to repositories. The token is sent to the
//! hub only. Storage servers receive the headers that the hub specifies for them.

mod client;
mod revision;
mod upload;

pub use client::Hub;
#[cfg(feature = "worker")]
pub(crate) use client::is_not_found;
pub use client::{Permission, Refusal};
#[cfg(feature = "worker")]
pub(crate) use revision::is_commit;
pub use revision::{Addition, NewCommit};
pub use revision::{CommitInfo, ListedFile};
pub use zstn::internals::{RepoKind, Repository};
