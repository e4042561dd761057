//! Builds the shared and the static library.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::CRATE;
use crate::cargo::cargo;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// The cargo profile.
#[derive(Clone, Copy)]
pub enum Profile {
    Dev,
    Release,
}

/// The built libraries.
pub struct Library {
    pub shared: PathBuf,
    pub fixed: PathBuf,
    /// Libraries that programs must also link with the static library. Only rustc knows
    /// them, and reports them when it builds this library alone.
    pub private: Option<String>,
}

/// Builds both libraries, and compares the exported symbols of the shared one with the
/// committed list; with `write`, replaces the list.
pub fn build(
    workspace: &Workspace,
    step: &mut Step,
    profile: Profile,
    write: bool,
) -> Result<Library> {
    let (name, folder) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Release => ("release", "release"),
    };
    step.run(
        cargo(workspace)
            .args(["rustc", "--package", "zstn-capi", "--lib"])
            .args(["--profile", name, "--", "--print", "native-static-libs"]),
    )?;
    let output = step.output()?;
    let mut found = output
        .lines()
        .filter_map(|line| line.split_once("native-static-libs: "));
    let (_, private) = found
        .next_back()
        .context("rustc did not list the libraries that the static library needs")?;
    let mut library = Library::in_folder(workspace, folder)?;
    library.private = Some(private.trim().to_owned());
    symbols(workspace, &library, |_| true, write)?;
    Ok(library)
}

/// Returns the libraries that were built with the whole workspace. Fails if the
/// `zstn_` symbols they export differ from the committed list.
pub fn built(workspace: &Workspace) -> Result<Library> {
    let library = Library::in_folder(workspace, "debug")?;
    // A build of the whole workspace enables more features, with which a dependency
    // exports additional symbols.
    symbols(workspace, &library, |name| name.starts_with("zstn_"), false)?;
    Ok(library)
}

impl Library {
    /// Returns the libraries in `folder`, a profile's subfolder of the target
    /// directory.
    fn in_folder(workspace: &Workspace, folder: &str) -> Result<Self> {
        let (start, end) =
            env_suffix().context("the C library is built on Linux and macOS only")?;
        Ok(Self {
            shared: workspace.target(folder).join(format!("{start}{end}")),
            fixed: workspace.target(folder).join(format!("{start}.a")),
            private: None,
        })
    }
}

/// Returns prefix and extension of shared libraries on this system.
fn env_suffix() -> Option<(&'static str, &'static str)> {
    match std::env::consts::OS {
        "linux" => Some(("libzstn_capi", ".so")),
        "macos" => Some(("libzstn_capi", ".dylib")),
        _ => None,
    }
}

/// Compares the symbols that the shared library exports, limited to names that
/// `is_ours` accepts, with the committed list.
fn symbols(
    workspace: &Workspace,
    library: &Library,
    is_ours: impl Fn(&str) -> bool,
    write: bool,
) -> Result<()> {
    let nm = match cfg!(target_os = "macos") {
        true => ["-gUj", ""],
        false => ["-D", "--defined-only"],
    };
    let arguments = nm.iter().filter(|argument| !argument.is_empty());
    let listed = process::ask(Command::new("nm").args(arguments).arg(&library.shared))?;
    let names = listed
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let names = names.map(|name| name.trim_start_matches('_'));
    let mut names: Vec<&str> = names.filter(|name| is_ours(name)).collect();
    names.sort_unstable();
    let found = names.join("\n") + "\n";
    let path = workspace.path(CRATE).join("symbols.txt");
    if write {
        return fs::write(&path, found)
            .with_context(|| format!("{} is not writable", path.display()));
    }
    let expected =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    if found != expected {
        bail!(
            "the library exports other symbols than {}; a symbol that was released stays. \
             `cargo xtask capi --write` writes the list. It exports:\n{found}",
            workspace.show(&path)
        );
    }
    Ok(())
}
