//! The work on one row of a plan: its file is read, packed, verified by restoring it,
//! and stored, and the result is recorded. `zstn worker` and the job of the Python
//! package (`python -m zstn_hub`) share this code, so either can continue where the
//! other was stopped.

mod failure;
mod origin;
mod packer;
mod row_work;
mod store;
mod workspace;

pub use origin::list_objects;
pub use origin::{Origin, copy_sha256, stream_sha256};
pub use packer::WorkerOptions;
pub use row_work::{RowOutcome, RowWork};

pub(crate) use failure::Failure;
#[cfg(feature = "worker")]
pub(crate) use failure::class;
#[cfg(feature = "worker")]
pub(crate) use packer::{Packed, Packer};
use workspace::Workspace;
