//! The verb `sizes`, which prints the tables of `docs/benchmarks.md`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Sizes;
use crate::cargo::cargo;
use crate::python;
use crate::step::Report;
use crate::workspace::Workspace;

pub fn run(workspace: &Workspace, report: &Report, options: &Sizes) -> Result<()> {
    report.step("Python packages", |step| python::peers(workspace, step))?;
    let environment = report.step("OpenZL and ZipNN", |step| python::figures(workspace, step))?;
    report.step("command line, release build", |step| {
        step.run(cargo(workspace).args(["build", "--release", "--package", "zstn-cli"]))
    })?;
    let mut table = Command::new(environment.python());
    table
        .arg(workspace.path("tests/peers/sizes.py"))
        .args(&options.names)
        .env("ZSTN_BIN", workspace.zstn("release"))
        // Prevents __pycache__ folders in the source tree.
        .env("PYTHONDONTWRITEBYTECODE", "1");
    for effort in &options.effort {
        table.args(["--effort", effort]);
    }
    if let Some(seed) = options.seed {
        table.args(["--seed", &seed.to_string()]);
    }
    if let Some(level) = options.zstd_level {
        table.args(["--zstd-level", &level.to_string()]);
    }
    if options.frames {
        table.arg("--frames");
    }
    // The table is the result, so it is printed to the terminal row by row.
    let status = table.status().context("Python does not start")?;
    if !status.success() {
        bail!("measuring stopped: {status}");
    }
    Ok(())
}
