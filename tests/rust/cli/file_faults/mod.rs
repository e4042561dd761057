//! The faults of files and folders in `tests/faults/files.json`.

mod inputs;
mod meanwhile;
// The shell limits the length of files.
#[cfg(unix)]
mod outputs;
pub(crate) mod scratch;
