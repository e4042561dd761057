//! The verb `interop`: the real z4ai decodes random inputs from every encoder.
//!
//! The check is a test in `tests/peers`, which by default tries a few inputs; this verb
//! sets their number.

use std::process::Command;

use anyhow::{Context, Result};

use crate::args::Interop;
use crate::programs;
use crate::python;
use crate::step::Report;
use crate::workspace::Workspace;

pub fn run(workspace: &Workspace, report: &Report, options: &Interop) -> Result<()> {
    let environment = report.step("Python packages", |step| python::peers(workspace, step))?;
    report.step("encoders of every kind", |step| {
        programs::build(workspace, step)
    })?;
    report.step("random inputs through z4ai", |step| {
        let mut unittest = Command::new(environment.python());
        unittest.args(["-m", "unittest", "-v", "tests/peers/test_interop.py"]);
        ready(workspace, &environment, &mut unittest)
            .env("ZSTN_INTEROP_CASES", options.cases.to_string())
            .env("ZSTN_INTEROP_SEED", options.seed.to_string())
            .env(
                "ZSTN_INTEROP_ONLY",
                options.only.as_deref().unwrap_or_default(),
            );
        step.run(&mut unittest)?;
        let output = step.output()?;
        let summary = output.lines().find(|line| line.contains(" encodings, "));
        step.after(summary.context("z4ai was never called")?);
        Ok(())
    })
}

/// Passes paths to the tests of the peers: the programs that encode, the second
/// ztensor, and the folder for inputs that z4ai refuses.
pub fn ready<'a>(
    workspace: &Workspace,
    environment: &python::Environment,
    unittest: &'a mut Command,
) -> &'a mut Command {
    let program = |name| programs::example(workspace, name);
    unittest
        .env("ZSTN_INTEROP", program("interop"))
        .env("ZSTN_WRITE_ZTENSOR", program("ztensor"))
        .env("ZSTN_ZTENSOR_1", environment.ztensor_1())
        .env("ZSTN_INTEROP_KEEP", workspace.target("interop"))
        // Prevents __pycache__ folders in the source tree.
        .env("PYTHONDONTWRITEBYTECODE", "1")
}
