//! Virtual environments of Python.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

const OLDEST_PYTHON: (u32, u32, u32) = (3, 11, 0);
const INSTRUCTIONS: &str = "Install Python 3.11 or newer with its venv module \
     (Debian: `sudo apt-get install python3 python3-venv`, macOS: `brew install python`), then try again.";

/// A virtual environment below the target directory.
#[derive(Clone)]
pub struct Environment {
    directory: PathBuf,
}

impl Environment {
    /// Returns the environment `name`. If it is new, it contains no packages.
    pub fn named(workspace: &Workspace, step: &mut Step, name: &str) -> Result<Self> {
        let environment = Self {
            directory: workspace.cache(name),
        };
        // An environment whose Python was removed or renamed is created again.
        let ask = || process::ask(Command::new(environment.python()).args(["-c", "import pip"]));
        if ask().is_ok() {
            return Ok(environment);
        }
        let version = process::ask(Command::new("python3").arg("--version"))
            .with_context(|| format!("Python is missing. {INSTRUCTIONS}"))?;
        if process::version(&version) < Some(OLDEST_PYTHON) {
            bail!("{version} is too old. {INSTRUCTIONS}");
        }
        let mut create = Command::new("python3");
        create
            .args(["-m", "venv", "--clear"])
            .arg(&environment.directory);
        step.run(&mut create)
            .with_context(|| format!("Python cannot make a virtual environment. {INSTRUCTIONS}"))?;
        Ok(environment)
    }

    pub fn python(&self) -> PathBuf {
        self.program("python")
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the search path with the environment's programs at the front.
    pub fn search_path(&self) -> Result<OsString> {
        let programs = self.python().with_file_name("");
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = iter::once(programs).chain(env::split_paths(&path));
        env::join_paths(folders).context("the search path cannot be extended")
    }

    pub fn program(&self, name: &str) -> PathBuf {
        let scripts = if cfg!(windows) { "Scripts" } else { "bin" };
        self.directory.join(scripts).join(name)
    }

    /// Returns the folder of ztensor 1.2, for the front of the module search path of
    /// code that needs it instead of 0.1.
    pub fn ztensor_1(&self) -> PathBuf {
        self.directory.join("ztensor1")
    }

    /// Runs `pip install`, unless `stamp` records that exactly this has been done
    /// before.
    pub fn install(
        &self,
        step: &mut Step,
        stamp: &str,
        contents: &str,
        what: &[impl AsRef<OsStr>],
    ) -> Result<()> {
        let stamp = self.directory.join(stamp);
        if fs::read_to_string(&stamp).is_ok_and(|done| done == contents) {
            step.note("unchanged");
            return Ok(());
        }
        step.run_twice(|| {
            let mut command = Command::new(self.python());
            command
                .args(["-m", "pip", "install", "--quiet", "--no-input"])
                .arg("--disable-pip-version-check")
                .args(what);
            command
        })
        .context("Python packages could not be downloaded")?;
        fs::write(&stamp, contents).with_context(|| format!("{} is not writable", stamp.display()))
    }
}
