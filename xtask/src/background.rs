//! Commands that run in the background of other steps.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// A running command, which is stopped when this value is dropped.
pub struct Background {
    child: Child,
    shown: String,
    /// Name of its log.
    log: &'static str,
}

impl Background {
    /// Starts `command` in the root of the repository.
    pub fn start(workspace: &Workspace, log: &'static str, command: &mut Command) -> Result<Self> {
        let shown = process::show(command);
        let path = workspace.log(log);
        let file =
            File::create(&path).with_context(|| format!("{} is not writable", path.display()))?;
        let errors = file.try_clone().context("the log is not writable")?;
        let child = command
            .current_dir(workspace.root())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("`{shown}` could not be started"))?;
        Ok(Self { child, shown, log })
    }

    /// Waits until the command ends, and copies its output to the log of `step`.
    pub fn finish(mut self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        step.spent(process::processor_time(&self.child));
        let status = self
            .child
            .wait()
            .with_context(|| format!("`{}` was lost", self.shown))?;
        step.append(&workspace.log(self.log))?;
        if !status.success() {
            bail!("`{}` failed ({status})", self.shown);
        }
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Both calls fail only if the command has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
