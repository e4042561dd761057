//! The faults of files and folders in `tests/faults/files.json`.

mod inputs;
mod outputs;
pub(crate) mod scratch;
