//! The table of faults in `tests/faults`: how a server or disk misbehaves, and the
//! outcome that every test suite expects.

pub mod cells;
pub mod files;
mod send;
pub mod server;
pub mod table;

use std::fs;

pub use cells::{Cell, Expected, Operation, Phase, Side, Times};
use serde::Serialize;
pub use server::CaseServer;
pub use table::{Kind, Table};

use crate::repository;

/// The result of running a case once.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Name of the case.
    pub case: String,
    /// The suite and operation, such as `native read`.
    pub surface: String,
    /// What went wrong; `None` if the run passed.
    pub problem: Option<String>,
}

/// Writes the runs of a suite to `target/faults/NAME.json`, which lists the outcome of
/// each case on each surface.
///
/// # Panics
/// If they cannot be written.
pub fn write_report(name: &str, runs: &[Run]) {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| repository().join("target"), Into::into)
        .join("faults");
    fs::create_dir_all(&folder).expect("target/faults");
    let text = serde_json::to_string(runs).expect("JSON");
    fs::write(folder.join(format!("{name}.json")), text).expect("the results");
}
