//! The oldest supported Rust version, `rust-version` in `Cargo.toml`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo::cargo_at;
use crate::process;
use crate::rust_target::RUSTUP_LIMIT;
use crate::step::Step;
use crate::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_RUST_VERSION");
/// A separate target directory, because another compiler's results cannot be reused.
const DIRECTORY: &str = "oldest-rust";

/// Checks all crates with that version in about a minute. Without rustup, the step is
/// skipped with a note.
pub fn check(workspace: &Workspace, step: &mut Step) -> Result<()> {
    if !is_installed() && !install(step) {
        step.note(format!("rustup cannot install Rust {VERSION}: left out"));
        return Ok(());
    }
    let mut check = cargo_at(Path::new("rustup"), &workspace.target(DIRECTORY));
    in_toolchain(&mut check)
        .args(["run", VERSION, "cargo", "check", "--locked", "--workspace"])
        .env("CARGO_INCREMENTAL", "0");
    step.run(&mut check)?;
    step.note(format!("Rust {VERSION}"));
    Ok(())
}

fn is_installed() -> bool {
    let mut rustc = Command::new("rustup");
    in_toolchain(&mut rustc).args(["run", VERSION, "rustc", "--version"]);
    process::ask(&mut rustc).is_ok_and(|said| {
        let wanted = process::version(VERSION).map(|(major, minor, _)| (major, minor));
        process::version(&said).map(|(major, minor, _)| (major, minor)) == wanted
    })
}

fn install(step: &mut Step) -> bool {
    if process::find("rustup").is_none() {
        return false;
    }
    step.say(&format!(
        "Installing Rust {VERSION} with rustup: all crates have to build with it."
    ));
    let mut rustup = Command::new("rustup");
    rustup
        .args(["--quiet", "toolchain", "install", VERSION])
        .args(["--profile", "minimal", "--no-self-update"])
        .env("RUSTUP_MAX_RETRIES", "0");
    process::succeeds_within(&mut rustup, RUSTUP_LIMIT) && is_installed()
}

/// Removes the variables that rustup and cargo set for this program's toolchain.
fn in_toolchain(command: &mut Command) -> &mut Command {
    command
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC")
        .env_remove("LD_LIBRARY_PATH")
}
