//! git-lfs and its tests, with Giftless as the server, moto as S3, and the wheel
//! installed in Giftless.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::python::{self, Environment};
use crate::step::{Report, Step};
use crate::tier::Tier;
use crate::wheel::{self, Python};
use crate::workspace::Workspace;
use crate::{apt, counts, process, programs};

const PACKAGE: &str = "git-lfs";

/// Runs the verb `lfs`, which only runs the tests with git-lfs.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    let Some(tools) = report.step("git-lfs and Giftless", |step| {
        GitLfs::ready(workspace, step)
    })?
    else {
        return Ok(());
    };
    let python = Python::ready(workspace, report, Tier::All)?;
    python.build(workspace, report)?;
    report.step("command line, dev build", |step| {
        programs::build(workspace, step)
    })?;
    report.step("git-lfs", |step| tools.test(workspace, step))
}

/// Programs that the tests need in addition to the command line and the wheel.
pub struct GitLfs {
    program: PathBuf,
    giftless: Environment,
    moto: PathBuf,
}

impl GitLfs {
    /// Installs the programs. Returns `None` if neither git-lfs nor its package is
    /// available; the tests are then skipped.
    pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<Self>> {
        let Some(program) = program(workspace, step) else {
            step.note("no git-lfs: its tests are left out");
            return Ok(None);
        };
        let giftless = python::giftless(workspace, step)?;
        let moto = python::moto(workspace, step)?;
        step.note(workspace.show(&program));
        Ok(Some(Self {
            program,
            giftless,
            moto,
        }))
    }

    /// Runs the tests with the dev builds of the command line and the wheel.
    pub fn test(&self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        wheel::install_dev(workspace, step, &self.giftless)?;
        let mut tests = Command::new(self.giftless.python());
        tests
            .args(["-X", "dev", "-W", "error", "-m", "unittest", "-v"])
            .current_dir(workspace.path("tests/lfs"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ZSTN_BIN", workspace.zstn("debug"))
            .env("ZSTN_GIT_LFS", &self.program)
            .env("ZSTN_MOTO_SERVER", &self.moto);
        step.run(&mut tests)?;
        counts::note(step)
    }
}

/// Returns the installed git-lfs, or unpacks the distribution's package below the
/// target directory.
pub fn program(workspace: &Workspace, step: &mut Step) -> Option<PathBuf> {
    let folder = workspace.cache(PACKAGE);
    let unpacked = folder.join("usr/bin/git-lfs");
    let known = [process::find(PACKAGE), Some(unpacked.clone())];
    if let Some(program) = known.into_iter().flatten().find(|path| runs(path)) {
        return Some(program);
    }
    let done = apt::can_unpack() && apt::unpack(step, PACKAGE, &folder).is_ok();
    (done && runs(&unpacked)).then_some(unpacked)
}

fn runs(program: &Path) -> bool {
    program.is_file() && process::ask(Command::new(program).arg("version")).is_ok()
}
