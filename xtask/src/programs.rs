//! The dev build of this repository: the command line, the fault server, the stub hub,
//! all tests, and the libraries for C and Python. They are compiled with a single
//! selection of packages, because cargo compiles dependencies again for each selection
//! with different features.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::process;
use crate::rust_target::active_rustc;
use crate::step::Step;
use crate::workspace::Workspace;

/// Set once this process has built everything, so that later calls skip the build.
static BUILT: AtomicBool = AtomicBool::new(false);

/// Returns a cargo command for builds with the dev profile. It uses clippy as the
/// compiler of the workspace's crates, so that linting does not need a second build.
pub fn cargo_dev(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    if let Some(clippy) = clippy(workspace) {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy);
    }
    command
}

/// Returns the path of clippy's compiler driver, which is in the same folder as
/// `rustc`.
fn clippy(workspace: &Workspace) -> Option<PathBuf> {
    let sysroot = process::ask(active_rustc(workspace).args(["--print", "sysroot"])).ok()?;
    let name = format!("clippy-driver{}", std::env::consts::EXE_SUFFIX);
    let program = PathBuf::from(sysroot).join("bin").join(name);
    program.is_file().then_some(program)
}

/// Builds everything, unless this process has done so before.
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

/// The selections of packages that are built. This program's package is separate:
/// `cargo xtask` has just built its dependencies, and with the features of the other
/// packages cargo would build them again.
pub const SELECTIONS: [&[&str]; 2] = [
    &["--workspace", "--exclude", "xtask"],
    &["--package", "xtask"],
];

/// Returns a command that runs the product's tests, with the same settings as
/// [`build_all`].
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

/// Fails if the compiler or clippy has warned about anything that [`build_all`] has
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
