//! Tests of the command line as users run it.

mod addresses;
mod deltas;
mod diff;
mod extension_frames;
mod families;
mod family_outputs;
mod file_faults;
mod folders;
mod interrupted;
mod json;
mod lfs;
mod ls;
mod network_options;
#[cfg(target_os = "linux")]
mod odd_file_systems;
mod overwriting;
mod printing;
mod secrets;
mod several_inputs;
mod sha256_option;
mod tls_and_proxies;
mod verbose;
mod verbs;

use std::path::Path;
use std::process::Output;

use zstn_tests::cases;
use zstn_tests::command::zstn;

/// Creates a temporary folder with one file.
fn folder_with(name: impl AsRef<Path>, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join(name), bytes).expect("written");
    folder
}

/// Runs `zstn` in `folder` with the arguments of a line, which are separated by spaces.
fn run(folder: &Path, line: &str) -> Output {
    zstn(folder, &line.split(' ').collect::<Vec<_>>())
}

fn vector(name: &str) -> Vec<u8> {
    cases::read("zstn", name)
}
