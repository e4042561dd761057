//! A client for writing to a model hub: revisions and their files, uploads of large
//! files, and commits.
//!
//! To read files, use `hf://` addresses ([`Location`](zstn::Location)); this module
//! has the calls for programs that add files to repositories. The token is sent to the
//! hub only. Storage servers receive the headers that the hub specifies for them.

mod client;
mod commit;
mod refusal;
mod revision;
mod upload;

pub use client::Hub;
pub use commit::{Addition, NewCommit};
#[cfg(feature = "worker")]
pub(crate) use refusal::is_not_found;
pub use refusal::{Permission, Refusal};
#[cfg(feature = "worker")]
pub(crate) use revision::is_commit;
pub use revision::{CommitInfo, ListedFile};
pub use zstn::internals::{RepoKind, Repository};
