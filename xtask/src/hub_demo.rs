//! The verb `hub-demo`, which takes a model through all hub features.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::args::HubDemo;
use crate::step::Report;
use crate::tier::Tier;
use crate::wheel::Python;
use crate::workspace::Workspace;
use crate::{capi, git_lfs, python};

const STORY: &str = "tests/hub/story.py";

/// Installs and builds the programs that the demo needs, and runs it.
pub fn run(workspace: &Workspace, report: &Report, options: &HubDemo) -> Result<()> {
    let model = match &options.model {
        Some(model) => std::path::absolute(model)?,
        None => report.step("model (MiniLM)", |step| python::model(workspace, step))?,
    };
    let git_lfs = report.step("git-lfs", |step| Ok(git_lfs::program(workspace, step)))?;
    let python = Python::ready(workspace, report, Tier::All)?;
    python.build(workspace, report)?;
    python.programs(workspace, report)?;
    let library = capi::install_dev(workspace, report)?;
    tell(
        workspace,
        report,
        &python,
        &model,
        git_lfs,
        library.prefix(),
    )
}

/// Runs the demo with existing programs, and prints its table.
pub fn tell(
    workspace: &Workspace,
    report: &Report,
    python: &Python,
    model: &Path,
    git_lfs: Option<PathBuf>,
    library: &Path,
) -> Result<()> {
    report.step("cargo xtask hub-demo", |step| {
        let mut story = python.tests(workspace);
        story.arg(workspace.path(STORY)).arg(model);
        match git_lfs {
            Some(program) => drop(story.arg("--git-lfs").arg(program)),
            None => step.note("no git-lfs: its part is left out"),
        }
        story.arg("--c-library").arg(library);
        step.run(&mut story)?;
        let output = step.output()?;
        // The first line of the log is the command itself.
        for line in output.lines().skip(1).filter(|line| !line.is_empty()) {
            step.after(line);
        }
        Ok(())
    })
}
