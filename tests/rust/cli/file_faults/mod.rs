//! Runs the faults of files and folders in `tests/faults/files.json`.

mod inputs;
mod meanwhile;
// These tests limit file sizes with the shell's `ulimit`.
#[cfg(unix)]
mod outputs;
pub(crate) mod scratch;
