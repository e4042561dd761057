//! The command line under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::repository;

/// The program: `$ZSTN_BIN`, or what this build made.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn program() -> PathBuf {
    std::env::var_os("ZSTN_BIN").map_or_else(
        || {
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "-p", "zstn"])
                .current_dir(repository())
                .status()
                .expect("cargo runs");
            assert!(status.success());
            let target = std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| repository().join("target"), PathBuf::from);
            target.join("debug").join("zstn")
        },
        PathBuf::from,
    )
}

/// Runs it in `folder`.
///
/// # Panics
/// If it cannot be run.
#[must_use]
pub fn zstn(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("zstn runs")
}
