//! The programs of this repository that tests run: the command line, the server
//! of faults, the stub hub, and examples that write files for other packages.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use crate::cargo::cargo;
use crate::step::Step;
use crate::workspace::Workspace;

/// They were built by this process already.
static BUILT: AtomicBool = AtomicBool::new(false);

/// Builds the command line, the server of faults and the stub hub, unless
/// [`build_all`] has.
pub fn build(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let programs = ["--package", "zstn", "--package", "zstn-tests", "--bins"];
    unless_built(|| step.run(cargo(workspace).arg("build").args(programs)))
}

/// Returns the path of the stub hub.
pub fn stub_hub(workspace: &Workspace) -> PathBuf {
    let suffix = std::env::consts::EXE_SUFFIX;
    workspace.target(&format!("debug/stub-hub{suffix}"))
}

/// Runs `work`, unless [`build_all`] has built everything.
pub fn unless_built(work: impl FnOnce() -> Result<()>) -> Result<()> {
    match BUILT.load(Ordering::SeqCst) {
        true => Ok(()),
        false => work(),
    }
}

/// Returns a command that runs tests of `zstn-tests`, built as they are already.
pub fn test(workspace: &Workspace) -> Command {
    let mut test = cargo(workspace);
    test.arg("test");
    match BUILT.load(Ordering::SeqCst) {
        true => test
            .arg("--workspace")
            .env("ZSTN_BIN", workspace.zstn("debug")),
        false => test.args(["--package", "zstn-tests"]),
    };
    test
}

/// Builds all programs and tests. Cargo compiles dependencies anew for each
/// selection of packages whose features differ, so this is the one of
/// `cargo test --workspace`.
pub fn build_all(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let targets = ["--workspace", "--bins", "--tests", "--examples"];
    step.run(cargo(workspace).arg("build").args(targets))?;
    BUILT.store(true, Ordering::SeqCst);
    Ok(())
}
