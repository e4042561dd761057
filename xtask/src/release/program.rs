//! The statically linked command line, which runs on any Linux.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::rust_target::active_rustc;
use crate::step::Step;
use crate::workspace::Workspace;
use crate::{apt, build_paths, process, rust_target};

pub const TARGET: &str = "x86_64-unknown-linux-musl";
/// Compiler for the C code of zstd and ring, for musl.
const COMPILER: &str = "musl-gcc";
const PACKAGE: &str = "musl-tools";

/// Builds the program and returns its path.
pub fn build(workspace: &Workspace, step: &mut Step) -> Result<PathBuf> {
    if process::find(COMPILER).is_none() {
        apt::install(step, &[PACKAGE], "it compiles C for static programs")
            .with_context(|| format!("install it: {}", apt::by_hand(&[PACKAGE])))?;
    }
    rust_target::add(workspace, step, TARGET)?;
    let target = workspace.target("static");
    let mut build = cargo(workspace);
    build
        .args(["build", "--release", "--locked", "--package", "zstn-cli"])
        .args(["--target", TARGET])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CC_x86_64_unknown_linux_musl", COMPILER)
        // Symbols and line tables make up most of a static program.
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    build_paths::set_flags(
        &mut build,
        &build_paths::remap(workspace, &mut active_rustc(workspace)),
    );
    step.run(&mut build)?;
    let program = target.join(TARGET).join("release/zstn");
    let said = process::ask(Command::new(&program).arg("--version"))?;
    let linked = process::ask(Command::new("file").arg("-b").arg(&program));
    if let Ok(linked) = linked
        && !linked.contains("static")
    {
        bail!("the program is not static: {linked}");
    }
    step.note(said);
    Ok(program)
}
