//! The faults of files and folders in `tests/faults/files.json`.

// Windows keeps others from changing, cutting or removing a file that is mapped.
#[cfg(unix)]
mod inputs;
#[cfg(unix)]
mod meanwhile;
#[cfg(unix)]
mod outputs;
pub(crate) mod scratch;
