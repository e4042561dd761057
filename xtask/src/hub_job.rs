//! Tests of `python -m zstn_hub` on a Ray cluster, with moto as its store.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::args;
use crate::python::{self, Environment};
use crate::step::{Report, Step};
use crate::tier::Tier;
use crate::wheel::{self, Python};
use crate::workspace::Workspace;
use crate::{counts, programs};

const TESTS: &str = "tests/hub_job";

/// Runs the verb `hub-job`, which only runs these tests.
pub fn run(workspace: &Workspace, report: &Report, options: &args::HubJob) -> Result<()> {
    let Some(tools) = report.step("Ray", |step| HubJob::ready(workspace, step))? else {
        return Ok(());
    };
    let python = Python::ready(workspace, report, Tier::All)?;
    python.build(workspace, report)?;
    python.programs(workspace, report)?;
    report.step("jobs on a Ray cluster", |step| tools.test(workspace, step))?;
    if options.figures {
        report.step("figures of jobs", |step| tools.figures(workspace, step))?;
    }
    Ok(())
}

/// Programs that the tests need in addition to the wheel.
pub struct HubJob {
    ray: Environment,
    moto: PathBuf,
}

impl HubJob {
    /// Installs the programs. Returns `None` if Ray has no wheel for this Python
    /// version; the tests are then skipped.
    pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<Self>> {
        let Some(ray) = python::ray(workspace, step)? else {
            step.note("Ray has no wheel for this Python: its tests are left out");
            return Ok(None);
        };
        let moto = python::moto(workspace, step)?;
        Ok(Some(Self { ray, moto }))
    }

    /// Runs the tests with the dev builds of the command line and the wheel, and prints
    /// the job's figures.
    pub fn test(&self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        wheel::install_dev(workspace, step, &self.ray)?;
        let mut tests = self.python(workspace);
        tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        // The output of the job is shown, because it contains results.
        tests.args(["-rP", "--show-capture=stdout", "."]);
        step.run(&mut tests)?;
        show_figures(step)?;
        counts::note(step)
    }

    /// Runs the job on one node, on two nodes, and without a cluster.
    fn figures(&self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        step.run(self.python(workspace).arg("figures.py"))?;
        show_figures(step)
    }

    fn python(&self, workspace: &Workspace) -> Command {
        let mut python = Command::new(self.ray.python());
        python
            .current_dir(workspace.path(TESTS))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ZSTN_BIN", workspace.zstn("debug"))
            .env("ZSTN_STUB_HUB", programs::stub_hub(workspace))
            .env("ZSTN_MOTO_SERVER", &self.moto);
        python
    }
}

/// Prints the lines that a job marks as figures.
fn show_figures(step: &mut Step) -> Result<()> {
    for line in step.output()?.lines() {
        if let Some(figure) = line.strip_prefix("figure: ") {
            step.after(figure);
        }
    }
    Ok(())
}
