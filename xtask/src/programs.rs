//! The dev build of this repository: the command line, the server of faults, the
//! stub hub, all tests, and the libraries for C and Python. Compiled once, with one
//! selection of packages, since cargo compiles dependencies again for each selection
//! whose features differ.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::process;
use crate::rust_target::active_rustc;
use crate::step::Step;
use crate::workspace::Workspace;

/// Everything was built by this process already.
static BUILT: AtomicBool = AtomicBool::new(false);

/// Returns cargo for builds with the dev profile. Clippy compiles the crates of the
/// workspace, so that linting them does not take a second pass over all crates.
pub fn cargo_dev(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    if let Some(clippy) = clippy(workspace) {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy);
    }
    command
}

/// Returns clippy as a compiler, which is next to `rustc`.
fn clippy(workspace: &Workspace) -> Option<PathBuf> {
    let sysroot = process::ask(active_rustc(workspace).args(["--print", "sysroot"])).ok()?;
    let name = format!("clippy-driver{}", std::env::consts::EXE_SUFFIX);
    let program = PathBuf::from(sysroot).join("bin").join(name);
    program.is_file().then_some(program)
}

/// Builds the command line, the server of faults and the stub hub, unless
/// [`build_all`] has.
pub fn build(workspace: &Workspace, step: &mut Step) -> Result<()> {
    unless_built(|| build_all(workspace, step))
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

/// Returns a command that runs tests of the workspace, as [`build_all`] builds them.
pub fn test(workspace: &Workspace) -> Command {
    let mut test = cargo_dev(workspace);
    test.args(["test", "--workspace"])
        .env("ZSTN_BIN", workspace.zstn("debug"));
    test
}

/// Builds all libraries, programs, tests and examples.
pub fn build_all(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut build = cargo_dev(workspace);
    step.run(build.args(["build", "--workspace", "--all-targets"]))?;
    BUILT.store(true, Ordering::SeqCst);
    Ok(())
}

/// Fails if the compiler or clippy warned of anything in what [`build_all`] has
/// built. Cargo repeats the warnings of crates that are up to date.
pub fn lints(workspace: &Workspace, step: &mut Step) -> Result<()> {
    clippy(workspace).context("clippy is missing: `rustup component add clippy` installs it")?;
    let mut check = cargo_dev(workspace);
    step.run(check.args(["build", "--workspace", "--all-targets"]))?;
    let output = step.output()?;
    match output
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .count()
    {
        0 => Ok(()),
        count => bail!("{count} warnings"),
    }
}
