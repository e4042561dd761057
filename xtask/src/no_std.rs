//! Builds the core for a machine without an operating system.

use anyhow::Result;

use crate::rust_target::{self, BARE};
use crate::step::Step;
use crate::workspace::Workspace;

/// Compiles the core for a target without `std`, with exactly `features`.
pub fn build_core(workspace: &Workspace, step: &mut Step, features: &[&str]) -> Result<()> {
    let toolchain = rust_target::ready(workspace, step, &BARE)?;
    let mut build = toolchain.build(workspace, "no-std", &BARE, "");
    build.args(["--package", "zstn-core", "--lib", "--no-default-features"]);
    if !features.is_empty() {
        build.args(["--features", &features.join(",")]);
    }
    step.run(&mut build)?;
    step.note(format!("{}, {}", BARE.triple, toolchain.describe()));
    Ok(())
}
