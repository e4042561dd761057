//! The committed header, which is generated from the sources.

use std::fs;

use anyhow::{Context, Result, bail};

use super::CRATE;
use crate::cargo::cargo;
use crate::step::Step;
use crate::workspace::Workspace;

const HEADER: &str = "include/zstn.h";

/// Compares the committed header with one generated from its sources; with `write`,
/// replaces it.
pub fn ready(workspace: &Workspace, step: &mut Step, write: bool) -> Result<()> {
    let path = workspace.path(CRATE).join(HEADER);
    let made = generate(workspace)?;
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == made {
        step.note("unchanged");
        return Ok(());
    }
    if !write {
        bail!(
            "{} differs from its sources; run `cargo xtask capi --write` and commit it",
            workspace.show(&path)
        );
    }
    fs::write(&path, made).with_context(|| format!("{} is not writable", path.display()))?;
    step.note("written");
    Ok(())
}

fn generate(workspace: &Workspace) -> Result<String> {
    let mut program = cargo(workspace);
    program.args(["run", "--quiet", "--package", "zstn-capi-header"]);
    let made = program.output().context("cargo cannot be run")?;
    if !made.status.success() {
        bail!(
            "the header cannot be generated:\n{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }
    Ok(String::from_utf8(made.stdout)?)
}
