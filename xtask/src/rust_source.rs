//! A nightly compiler that builds the standard library from source.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process;
use crate::rust_target::{RUSTUP_LIMIT, Target, Toolchain, packaged_is_complete, rustlib};
use crate::step::Step;
use crate::workspace::Workspace;

/// Name of the toolchain. Stable compilers cannot build the standard library.
pub const NIGHTLY: &str = "nightly";

/// Finds a toolchain that builds the standard library of `target` from source, for
/// flags that the prebuilt library does not have. Installs at most the source. The
/// error is a sentence that names the missing component and the command that installs
/// it.
pub fn toolchain(
    workspace: &Workspace,
    step: &mut Step,
    target: &Target,
) -> Result<Toolchain, String> {
    if nightly_has_source() || rustup_adds_source(workspace, step) {
        return Ok(Toolchain::Nightly {
            crates: target.crates,
        });
    }
    if packaged_is_complete() {
        return Ok(Toolchain::Packaged {
            crates: target.crates,
        });
    }
    Err(format!(
        "it takes the source of Rust's standard library: type \
         `rustup toolchain install {NIGHTLY} --component rust-src`"
    ))
}

/// Returns a command for the compiler of that toolchain.
pub fn nightly_rustc() -> Command {
    let mut rustup = Command::new("rustup");
    rustup
        .args(["run", NIGHTLY, "rustc"])
        .env_remove("RUSTUP_TOOLCHAIN");
    rustup
}

/// Returns whether the toolchain contains the source; one with this name may be old or
/// lack it.
fn nightly_has_source() -> bool {
    process::find("rustup").is_some()
        && rustlib(&mut nightly_rustc()).is_some_and(|lib| is_in(&lib))
}

fn rustup_adds_source(workspace: &Workspace, step: &mut Step) -> bool {
    let has_nightly =
        process::find("rustup").is_some() && process::ask(nightly_rustc().arg("--version")).is_ok();
    // Without a network, each attempt may take the whole time limit.
    let failed = workspace.cache("rustup-without-rust-src");
    if !has_nightly || failed.exists() {
        return false;
    }
    step.say("Adding the source of the standard library to the nightly toolchain with rustup.");
    let mut rustup = Command::new("rustup");
    rustup
        .args(["--quiet", "component", "add", "rust-src", "--toolchain"])
        .arg(NIGHTLY)
        .env("RUSTUP_MAX_RETRIES", "0");
    let added = process::succeeds_within(&mut rustup, RUSTUP_LIMIT) && nightly_has_source();
    if !added {
        // This file only saves the next run an attempt.
        let _ = fs::create_dir_all(workspace.cache(""));
        let _ = fs::write(failed, "");
    }
    added
}

/// Returns whether a sysroot's library folder contains the source.
pub fn is_in(rustlib: &Path) -> bool {
    rustlib.join("src/rust/library/Cargo.lock").is_file()
}
