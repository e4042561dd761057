//! cargo-deny, which checks the crates against `deny.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{cargo, cargo_at};
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

const VERSION: &str = "0.20.2";

/// Checks licences, origins and banned crates of the workspace. The crates of
/// `tests/fuzz` and `tests/bench/decoders` are not checked, as they are only used for
/// manual measurements.
pub fn check(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let program = ready(workspace, step)?;
    let mut deny = Command::new(&program);
    deny.args(["--locked", "--config"])
        .arg(workspace.path("deny.toml"))
        // Advisories are not checked, because they need a database from GitHub.
        .args(["check", "licenses", "bans", "sources"])
        .current_dir(workspace.root());
    step.run(&mut deny)?;
    step.note(format!("cargo-deny {VERSION}"));
    Ok(())
}

/// Returns the installed cargo-deny; if there is none, builds it in two minutes.
fn ready(workspace: &Workspace, step: &mut Step) -> Result<PathBuf> {
    let folder = workspace.cache("cargo-deny");
    let built = folder.join(format!("bin/cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if let Some(found) = process::find("cargo-deny") {
        return Ok(found);
    }
    if is_current(&built) {
        return Ok(built);
    }
    let program = PathBuf::from(cargo(workspace).get_program());
    step.run_twice(|| {
        let mut install = cargo_at(&program, &workspace.target("cargo-deny"));
        install
            .args(["install", "cargo-deny", "--version", VERSION])
            // The program runs for a second, and optimising it would take longer.
            .args(["--locked", "--debug", "--force", "--root"])
            .arg(&folder)
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        install
    })
    .context(
        "cargo-deny could not be installed; `cargo install cargo-deny` elsewhere and PATH work too",
    )?;
    // The build files are large and have no further use.
    let _ = std::fs::remove_dir_all(workspace.target("cargo-deny"));
    Ok(built)
}

fn is_current(program: &Path) -> bool {
    let version = process::ask(Command::new(program).arg("--version"));
    version.is_ok_and(|said| process::version(&said) == process::version(VERSION))
}
