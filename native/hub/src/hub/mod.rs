//! Writing to a model hub: revisions and their files, uploads of large files,
//! commits.
//!
//! Reading files is a matter of `hf://` addresses ([`Location`](zstn::Location));
//! this is what else a program needs that adds files to repositories. The token
//! goes to the hub alone; the storage that it names gets the headers that it gives
//! for it.

mod client;
mod commit;
mod refusal;
mod repository;
mod revision;
mod upload;

pub use client::Hub;
pub use commit::{Addition, NewCommit};
pub use refusal::{Permission, Refusal};
pub use repository::{RepoKind, Repository};
#[cfg(feature = "worker")]
pub(crate) use revision::is_commit;
pub use revision::{CommitInfo, ListedFile};
