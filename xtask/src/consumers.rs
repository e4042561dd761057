//! ONNX Runtime and TensorFlow.js, which receive tensors in the tests of
//! `docs/npm/hand-off.md`. They take 700 MB, so they are separate from the packages
//! that all other tests need.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::fresh::Stamp;
use crate::node;
use crate::step::{Report, Step};
use crate::workspace::Workspace;

/// The folder that contains the lists of packages.
const LISTS: &str = "tests/js/consumers";

/// Runs the verb `consumers`, which installs the packages.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("ONNX Runtime and TensorFlow.js", |step| {
        ready(workspace, step).map(drop)
    })
}

/// Installs the packages, which takes 20 seconds the first time. Returns the folder
/// that contains their `node_modules`, or `None` if that fails; their tests are then
/// skipped.
pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<PathBuf>> {
    let folder = workspace.cache("consumers");
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let lists =
        ["package.json", "package-lock.json"].map(|name| (name, workspace.path(LISTS).join(name)));
    let inputs = lists.clone().map(|(_, list)| list);
    let installed = folder.join("node_modules/.package-lock.json");
    let stamp = Stamp::new(workspace, "consumers", &inputs, &[installed])?;
    if stamp.is_fresh() {
        step.note("unchanged");
        return Ok(Some(folder));
    }
    for (name, list) in lists {
        fs::copy(&list, folder.join(name))
            .with_context(|| format!("{} cannot be copied", list.display()))?;
    }
    // The only install script downloads files for other processors than the CPU.
    let done = step.run_twice(|| {
        let mut command = node::npm();
        command
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&folder);
        command
    });
    if done.is_err() {
        step.note("npm could not install them: their tests are left out");
        return Ok(None);
    }
    stamp.save()?;
    Ok(Some(folder))
}
