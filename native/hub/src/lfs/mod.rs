//! git-lfs with packed objects: a transfer agent that stores them in a folder or object
//! store or sends them to an LFS server, and a filter that packs files before git-lfs
//! stores them.
//!
//! docs/git-lfs.md explains which of the two to use. The agent speaks git-lfs's "custom
//! transfer agent" protocol; the filter is a git-lfs "extension".

mod agent;
mod filter;
mod git_repository;
mod messages;
mod object;
pub mod settings;
mod store;

pub use agent::Agent;
pub use filter::{Direction, Filter};
pub use git_repository::GitRepository;
pub use store::{Oid, Store};
