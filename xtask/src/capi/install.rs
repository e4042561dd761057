//! Installation of the library: a header, a shared and a static library, and a file for
//! pkg-config.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::CRATE;
use super::library::Library;
use crate::deps::NOTICES;
use crate::process;
use crate::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// The installed library.
pub struct Installed {
    prefix: PathBuf,
    /// True if the system libraries that the static library needs are known, so that
    /// programs can be linked with it.
    is_static: bool,
}

impl Installed {
    /// Installs `library` below `prefix`, replacing an earlier installation.
    pub fn new(workspace: &Workspace, library: &Library, prefix: &Path) -> Result<Self> {
        let installed = Self {
            prefix: std::path::absolute(prefix)?,
            is_static: library.private.is_some(),
        };
        let source = workspace.path(CRATE);
        installed
            .write(workspace, &source, library)
            .with_context(|| format!("{} is not writable", prefix.display()))?;
        Ok(installed)
    }

    fn write(&self, workspace: &Workspace, source: &Path, library: &Library) -> io::Result<()> {
        let [include, lib] = ["include", "lib"].map(|name| self.prefix.join(name));
        let pkgconfig = lib.join("pkgconfig");
        fs::create_dir_all(&include)?;
        fs::create_dir_all(&pkgconfig)?;
        replace(&source.join("include/zstn.h"), &include.join("zstn.h"))?;
        replace(&library.fixed, &lib.join("libzstn.a"))?;
        let [full, major, plain] = match cfg!(target_os = "macos") {
            true => [
                format!("libzstn.{VERSION}.dylib"),
                format!("libzstn.{MAJOR}.dylib"),
                "libzstn.dylib".into(),
            ],
            false => [
                format!("libzstn.so.{VERSION}"),
                format!("libzstn.so.{MAJOR}"),
                "libzstn.so".into(),
            ],
        };
        replace(&library.shared, &lib.join(&full))?;
        link(&full, &lib.join(&major))?;
        link(&major, &lib.join(plain))?;
        let licences = self.prefix.join("share/doc/zstn");
        fs::create_dir_all(&licences)?;
        for name in ["LICENSE", NOTICES] {
            replace(&workspace.path(name), &licences.join(name))?;
        }
        let template = fs::read_to_string(source.join("libzstn.pc.in"))?;
        let text = template
            .replace("@url@", env!("CARGO_PKG_REPOSITORY"))
            .replace("@version@", VERSION)
            .replace("@private@", library.private.as_deref().unwrap_or_default());
        fs::write(pkgconfig.join("libzstn.pc"), text)
    }

    pub fn is_static(&self) -> bool {
        self.is_static
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the folder of the libraries.
    pub fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Returns the folder for `PKG_CONFIG_PATH`.
    pub fn pkgconfig(&self) -> PathBuf {
        self.libraries().join("pkgconfig")
    }

    /// Queries pkg-config for compiler arguments.
    pub fn ask(&self, arguments: &[&str]) -> Result<Vec<OsString>> {
        let mut command = Command::new("pkg-config");
        command
            .args(arguments)
            .arg("libzstn")
            .env("PKG_CONFIG_PATH", self.pkgconfig());
        let said = process::ask(&mut command)?;
        Ok(said.split_whitespace().map(OsString::from).collect())
    }
}

/// Replaces a file atomically, since programs may be using it.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let beginning = to.with_extension("new");
    fs::copy(from, &beginning)?;
    fs::rename(&beginning, to)
}

#[cfg(unix)]
fn link(target: &str, link: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
