//! The faults of files and folders in `tests/faults/files.json`.

mod inputs;
mod meanwhile;
mod outputs;
pub(crate) mod scratch;
