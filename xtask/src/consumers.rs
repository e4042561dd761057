//! The libraries that tensors are handed to in the tests of
//! `docs/npm/hand-off.md`: ONNX Runtime and TensorFlow.js. They take 700 MB, so
//! they are apart from the packages that everything else needs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::fresh::Stamp;
use crate::node;
use crate::step::{Report, Step};
use crate::workspace::Workspace;

/// The folder with the lists of the packages.
const LISTS: &str = "tests/js/consumers";

/// The verb `consumers`: installs them.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("ONNX Runtime and TensorFlow.js", |step| {
        ready(workspace, step).map(drop)
    })
}

/// Installs them, which takes 20 seconds the first time, and returns the folder
/// with their `node_modules`; `None` if that fails: their tests are skipped then.
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
    // The only script would download what is for other processors than the CPU.
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
