//! Object stores for zstn: Amazon S3 and servers that speak its protocol, Azure
//! Blob Storage, Google Cloud Storage, and memory.
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
//! - [`Object`] reads ranges of the version that was there when it was opened. An
//!   object that is replaced meanwhile is an [`Error::Changed`], never a mixture.
//! - [`Upload`] writes an object in parts, with bounded memory. A journal on disk
//!   lets a later run continue after a crash; an object appears under its name
//!   only when it is complete, and replaces another only if that is allowed.
//! - [`FolderClaim`] is the exclusive right to write a folder of objects.
//! - [`read_small`], [`exists`], [`list`], [`list_top`] and [`delete`] do what they
//!   say.
//!
//! Credentials, regions and endpoints are taken from environment variables
//! ([`Environment`]). All calls block; the requests run on a few threads that the
//! process shares, so calls are allowed from asynchronous code as well, as long
//! as it may block. Google Cloud Storage is untested against the real service.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod address;
mod body;
mod claim;
mod client;
mod connection;
mod credentials;
mod environment;
mod error;
mod failure;
mod listing;
mod lock;
mod object;
mod observer;
mod options;
mod runtime;
mod small;
mod state;
mod upload;

pub use address::{Address, is_store};
pub use claim::FolderClaim;
pub use environment::Environment;
pub use error::{Error, Result};
pub use listing::{ListedObject, list, list_top};
pub use object::Object;
pub use observer::{FinishedRequest, Observer};
pub use options::{Limits, StoreOptions};
pub use small::{delete, exists, read_small};
pub use upload::{Upload, UploadOptions, UploadReport, default_journal_folder};
