//! Paths of the building machine, which panic messages contain: without them a
//! build is the same in every folder and for every user.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust_target::rustlib;
use crate::workspace::Workspace;

/// Where dependencies seem to be.
const CRATES: &str = "/crates";
/// Where the source of the standard library seems to be, if it is built as well.
const STANDARD_LIBRARY: &str = "/rust";

/// Returns arguments of `rustc` that replace them. `rustc` is the compiler.
pub fn remap(workspace: &Workspace, rustc: &mut Command) -> Vec<String> {
    let mut replaced: Vec<(PathBuf, &str)> = vec![(workspace.root().to_path_buf(), ".")];
    // One folder for each registry; its name says which.
    let registries = cargo_home().map(|home| home.join("registry/src"));
    for registry in registries.iter().flat_map(|folder| folders(folder)) {
        replaced.push((registry, CRATES));
    }
    if let Some(source) = rustlib(rustc).map(|lib| lib.join("src/rust")) {
        replaced.push((
            fs::canonicalize(&source).unwrap_or(source),
            STANDARD_LIBRARY,
        ));
    }
    replaced
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect()
}

/// Sets exactly these flags for a build by cargo.
pub fn set_flags(command: &mut Command, flags: &[String]) {
    command
        .env_remove("RUSTFLAGS")
        // Unlike the other variable, this one can have blanks in a flag.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
}

/// Returns the folder of cargo's downloads.
pub fn cargo_home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    named
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    // `cargo publish --dry-run` leaves the folder of a registry without a host. It
    // must not change the flags, or everything would be compiled again.
    let is_used = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('-');
    let folders = entries.filter(is_used).map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    folders
}
