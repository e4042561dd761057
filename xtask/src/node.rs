//! Node, npm and the scripts of the JavaScript packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::fresh::Stamp;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// The first Node 20 release that supports ES modules in `require`.
const OLDEST_NODE: (u32, u32, u32) = (20, 19, 0);
const INSTRUCTIONS: &str = "Install Node 20.19 or newer with npm (from nodejs.org, `nvm install 22`, \
     or `brew install node`), then try again.";

/// Checks that Node is installed and recent enough. This program never installs it,
/// since users choose their own version.
pub fn check(step: &mut Step) -> Result<()> {
    let node = process::ask(Command::new("node").arg("--version"))
        .with_context(|| format!("Node is missing. {INSTRUCTIONS}"))?;
    if process::version(&node) < Some(OLDEST_NODE) {
        bail!("Node {node} is too old. {INSTRUCTIONS}");
    }
    let npm = process::ask(npm().arg("--version"))
        .with_context(|| format!("npm is missing. {INSTRUCTIONS}"))?;
    step.note(format!("Node {}, npm {npm}", node.trim_start_matches('v')));
    Ok(())
}

pub fn npm() -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.env("NO_UPDATE_NOTIFIER", "1");
    command
}

/// Runs `npm ci`, unless `node_modules` is up to date with the lock file.
pub fn install(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let lock = workspace.path("package-lock.json");
    if !lock.is_file() {
        bail!("package-lock.json is missing; `npm install` writes it");
    }
    // npm writes the second file last and does not change it afterwards.
    let installed = workspace.path("node_modules/.package-lock.json");
    let stamp = Stamp::new(workspace, "npm-ci", &[lock], &[installed])?;
    if stamp.is_fresh() {
        step.note("unchanged");
        return Ok(());
    }
    step.run_twice(|| {
        let mut command = npm();
        command.args(["ci", "--no-audit", "--no-fund"]);
        command
    })?;
    stamp.save()
}

/// Runs `npm run build` in one package, unless `output` is up to date with `inputs`.
pub fn build(
    workspace: &Workspace,
    step: &mut Step,
    package: &str,
    inputs: &[PathBuf],
    output: &Path,
) -> Result<()> {
    // Compilers and type definitions are inputs, too.
    let mut inputs = inputs.to_vec();
    inputs.push(workspace.path("package.json"));
    inputs.push(workspace.path("package-lock.json"));
    let outputs = [output.to_path_buf()];
    let stamp = Stamp::new(workspace, &format!("npm-{package}"), &inputs, &outputs)?;
    if stamp.is_fresh() {
        step.note("unchanged");
        return Ok(());
    }
    step.run(npm().args(["run", "build", "--workspace", package]))?;
    if !has_files(output) {
        bail!(
            "the build of {package} left {} empty",
            workspace.show(output)
        );
    }
    stamp.save()
}

fn has_files(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}
