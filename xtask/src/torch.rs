//! The verbs `gauss` and `compressed`, which run comparisons with packages that need
//! PyTorch. PyTorch is too large for the tests.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::ByHand;
use crate::cargo::cargo;
use crate::python;
use crate::step::Report;
use crate::workspace::Workspace;

pub fn gauss(workspace: &Workspace, report: &Report, options: &ByHand) -> Result<()> {
    run(workspace, report, options, "gauss", "ZSTN_GAUSS")
}

pub fn compressed(workspace: &Workspace, report: &Report, options: &ByHand) -> Result<()> {
    run(workspace, report, options, "compressed", "ZSTN_COMPRESSED")
}

/// Runs `tests/peers/torch_NAME.py`. The environment variable named `program` contains
/// the path of the example with this name, which is zstn's side of the comparison.
fn run(
    workspace: &Workspace,
    report: &Report,
    options: &ByHand,
    name: &str,
    program: &str,
) -> Result<()> {
    let environment = report.step("Python packages with PyTorch (several GB)", |step| {
        python::torch(workspace, step)
    })?;
    report.step("our side, release build", |step| {
        let arguments = ["build", "--release", "--package", "zstn-tests", "--example"];
        step.run(cargo(workspace).args(arguments).arg(name))
    })?;
    let example = format!("release/examples/{name}{}", std::env::consts::EXE_SUFFIX);
    let mut script = Command::new(environment.python());
    script
        .arg(workspace.path(&format!("tests/peers/torch_{name}.py")))
        .args(&options.arguments)
        .env(program, workspace.target(&example))
        // Both sides use one thread.
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("MKL_NUM_THREADS", "1")
        // Prevents __pycache__ folders in the source tree.
        .env("PYTHONDONTWRITEBYTECODE", "1");
    // The output is the result, so it is printed to the terminal.
    let status = script.status().context("Python does not start")?;
    if !status.success() {
        bail!("the comparison stopped: {status}");
    }
    Ok(())
}
