//! Runs cargo from `cargo run` without the variables that the outer cargo sets.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::Workspace;

/// Prefixes of variables that `cargo run` sets for this program. Build scripts that
/// depend on them would run again on every change between `cargo xtask` and plain
/// `cargo`.
const INHERITED_PREFIXES: &[&str] = &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// Returns a command for the active toolchain's cargo, which builds into this
/// repository's target directory.
pub fn cargo(workspace: &Workspace) -> Command {
    let program = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    cargo_at(&program, workspace.target("").as_path())
}

/// Returns a command for the cargo `program`, which builds into `target`.
pub fn cargo_at(program: &Path, target: &Path) -> Command {
    let mut command = Command::new(program);
    cargo_environment(&mut command, target);
    command
}

/// Prepares `command`, which runs cargo, for building into `target`.
pub fn cargo_environment(command: &mut Command, target: &Path) {
    for (name, _) in env::vars_os() {
        let inherited = name
            .to_str()
            .is_some_and(|name| INHERITED_PREFIXES.iter().any(|p| name.starts_with(p)));
        if inherited {
            command.env_remove(name);
        }
    }
    command
        .env("CARGO_TARGET_DIR", target)
        // Programs are expected in target/<profile>, not in target/<triple>/<profile>.
        .env_remove("CARGO_BUILD_TARGET");
}
