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

/// Builds everything, unless this process already has.
pub fn build(workspace: &Workspace, step: &mut Step) -> Result<()> {
    match BUILT.load(Ordering::SeqCst) {
        true => Ok(()),
        false => build_all(workspace, step),
    }
}

/// Returns the path of an example of `zstn-tests`.
pub fn example(workspace: &Workspace, name: &str) -> PathBuf {
    let suffix = std::env::consts::EXE_SUFFIX;
    workspace.target(&format!("debug/examples/{name}{suffix}"))
}

/// Returns the path of the stub hub.
pub fn stub_hub(workspace: &Workspace) -> PathBuf {
    let suffix = std::env::consts::EXE_SUFFIX;
    workspace.target(&format!("debug/stub-hub{suffix}"))
}

/// The selections of packages that are built. This program's package is apart: `cargo
/// xtask` has just built its dependencies, and the features of the other packages
/// would have cargo build them again.
pub const SELECTIONS: [&[&str]; 2] = [
    &["--workspace", "--exclude", "xtask"],
    &["--package", "xtask"],
];

/// Returns a command that runs tests of the product, as [`build_all`] builds them.
pub fn test(workspace: &Workspace) -> Command {
    let mut test = cargo_dev(workspace);
    test.arg("test")
        .args(SELECTIONS[0])
        .env("ZSTN_BIN", workspace.zstn("debug"));
    test
}

/// Builds all libraries, programs, tests and examples.
pub fn build_all(workspace: &Workspace, step: &mut Step) -> Result<()> {
    for packages in SELECTIONS {
        let mut build = cargo_dev(workspace);
        step.run(build.arg("build").args(packages).arg("--all-targets"))?;
    }
    BUILT.store(true, Ordering::SeqCst);
    Ok(())
}

/// Fails if the compiler or clippy warned of anything in what [`build_all`] has
/// built. Cargo repeats the warnings of crates that are up to date.
pub fn lints(workspace: &Workspace, step: &mut Step) -> Result<()> {
    clippy(workspace).context("clippy is missing: `rustup component add clippy` installs it")?;
    build_all(workspace, step)?;
    let output = step.output()?;
    match output.lines().any(|line| line.starts_with("warning: ")) {
        false => Ok(()),
        true => bail!("there are warnings"),
    }
}
