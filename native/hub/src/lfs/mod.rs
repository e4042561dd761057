//! git-lfs with packed objects: the transfer agent that keeps them in a store or
//! sends them to a server, and the filter that packs before git-lfs does.
//!
//! docs/git-lfs.md says which of the two is for whom. The messages are those of
//! git-lfs's "custom transfer agents"; the filter is one of its "extensions".

mod agent;
mod channel;
mod fault;
mod filter;
mod message;
mod meter;
mod object;
mod oid;
mod repository;
mod scratch;
mod server;
pub mod settings;
mod store;
mod stored_form;

pub use agent::Agent;
pub use filter::{Direction, Filter};
pub use oid::Oid;
pub use repository::Repository;
pub use store::Store;
