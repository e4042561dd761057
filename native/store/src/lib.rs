//! Object stores for zstn: Amazon S3 and compatible servers, Azure Blob Storage, Google
//! Cloud Storage, and an in-memory store.
//!
//! ```
//! use zstn_store::{Address, Object, StoreOptions, Upload, UploadOptions};
//!
//! # fn main() -> zstn_store::Result<()> {
//! // Or s3://bucket/name, az://container/name, gs://bucket/name.
//! let address = Address::parse("memory://models/tiny.zstn")?;
//! let mut upload = Upload::begin(&address, &UploadOptions::default())?;
//! upload.write(b"all of it")?;
//! upload.finish()?;
//!
//! let object = Object::open(&address, &StoreOptions::default())?;
//! assert_eq!(object.read(0..3)?, b"all");
//! # Ok(())
//! # }
//! ```
//!
//! - [`Object`] reads ranges of the version that existed when it was opened. If the
//!   object is replaced meanwhile, reads fail with [`Error::Changed`] and never mix two
//!   versions.
//! - [`Upload`] writes an object in parts, with bounded memory. A journal on disk lets
//!   a later run continue after a crash. The object appears under its name only when it
//!   is complete, and replaces an existing object only if that is allowed.
//! - [`FolderClaim`] is the exclusive right to write a folder of objects.
//! - [`read_small`], [`exists`], [`list`], [`list_top`] and [`delete`] work on single
//!   objects and on folders.
//!
//! Credentials, regions and endpoints are taken from environment variables
//! ([`Environment`]). All calls block, except [`Object::fetch`] and [`Object::open_in`];
//! a few threads, shared by the process, wait for the network. Google Cloud Storage has
//! not been tested against the real service.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod address;
mod claim;
mod connection;
mod credentials;
mod error;
mod http_client;
mod listing;
mod object;
mod object_store_error;
mod observer;
mod state_files;
mod upload;

pub use address::{Address, is_store};
pub use claim::FolderClaim;
pub use connection::{RequestLimits, StoreOptions};
pub use credentials::Environment;
pub use error::{Error, Result};
pub use listing::{ListedObject, list, list_top};
pub use object::Object;
pub use object::{delete, exists, read_small};
/// The crate whose stores [`Object::open_in`] reads.
pub use object_store;
pub use observer::{FinishedRequest, Observer};
pub use upload::{Upload, UploadOptions, UploadReport, default_journal_folder};
