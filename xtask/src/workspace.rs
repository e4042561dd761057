//! The directories of the repository. Only this module constructs the path of the
//! target directory, so that `CARGO_TARGET_DIR` applies everywhere.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The absolute paths of the repository and its target directory.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds the repository from the manifest path of this crate, independent of the
    /// current directory.
    pub fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().unwrap_or(&manifest).to_path_buf();
        if !root.join("core").is_dir() {
            bail!(
                "{} is not this repository; run `cargo xtask` inside a clone",
                root.display()
            );
        }
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(directory) => env::current_dir()
                .context("the current directory cannot be read")?
                .join(directory),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file or directory of the repository.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Returns the path of a file or directory below the target directory.
    pub fn target(&self, relative: &str) -> PathBuf {
        self.target.join(relative)
    }

    /// Returns the path of the log named `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.target("xtask-logs").join(format!("{name}.log"))
    }

    /// Returns the path of a download, which remains when the project is rebuilt.
    pub fn cache(&self, relative: &str) -> PathBuf {
        self.target.join("cache").join(relative)
    }

    /// Returns the path of the command line built with `profile`, which is a directory
    /// of `target/`.
    pub fn zstn(&self, profile: &str) -> PathBuf {
        let name = format!("zstn{}", env::consts::EXE_SUFFIX);
        self.target.join(profile).join(name)
    }

    /// Returns a path for messages, relative to the repository if it is inside.
    pub fn show(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}
