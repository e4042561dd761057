//! Tests of the command line as users run it.

mod addresses;
mod changed_inputs;
mod delta_bases;
mod deltas;
mod exit_status;
mod extended;
mod families;
mod family_outputs;
mod file_faults;
mod folders;
mod hub;
mod killed;
mod known_sha256;
mod lfs;
mod modes;
mod network;
#[cfg(target_os = "linux")]
mod odd_file_systems;
mod overwriting;
mod printing;
mod secrets;
mod transport;
mod verbose;
mod verbs;

use std::path::Path;

use zstn_tests::cases;

/// Creates a temporary folder with one file.
fn folder_with(name: impl AsRef<Path>, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join(name), bytes).expect("written");
    folder
}

fn vector(name: &str) -> Vec<u8> {
    cases::read("zstn", name)
}
