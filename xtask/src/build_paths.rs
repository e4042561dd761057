//! Removal of this machine's paths from panic messages. Without them, a build is the
//! same in every folder and for every user.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust_target::rustlib;
use crate::workspace::Workspace;

/// Replaces the path of dependencies in messages.
const CRATES: &str = "/crates";
/// Replaces the path of the standard library's source, if it is built from source.
const STANDARD_LIBRARY: &str = "/rust";

/// Returns the arguments for `rustc` that replace these paths.
pub fn remap(workspace: &Workspace, rustc: &mut Command) -> Vec<String> {
    let mut replaced: Vec<(PathBuf, &str)> = vec![(workspace.root().to_path_buf(), ".")];
    // cargo has one folder for each registry, with a name derived from its address.
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

/// Sets exactly these flags for a cargo build.
pub fn set_flags(command: &mut Command, flags: &[String]) {
    command
        .env_remove("RUSTFLAGS")
        // Unlike `RUSTFLAGS`, this variable supports flags that contain spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
}

/// Returns cargo's home folder, which contains its downloads.
pub fn cargo_home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    named
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    // `cargo publish --dry-run` leaves a registry folder without a host name. If it
    // changed the flags, everything would be compiled again.
    let is_used = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('-');
    let folders = entries.filter(is_used).map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    folders
}
