//! A compiler that can build for WebAssembly.
//!
//! There are three ways, in this order: the active toolchain contains the target's
//! standard library; rustup adds it; Debian's toolchain builds it from source. Only the
//! library in the sysroot matters, not whether rustup is installed: many toolchains
//! come without rustup, and some with a rustup that cannot download.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::build_paths;
use crate::cargo::{cargo, cargo_at};
use crate::process;
use crate::rust_source::{self, NIGHTLY};
use crate::step::Step;
use crate::workspace::Workspace;

/// A target, with the crates of the standard library that it needs.
pub struct Target {
    pub triple: &'static str,
    pub crates: &'static str,
}

/// The target for browsers and Node.
pub const WEB: Target = Target {
    triple: "wasm32-unknown-unknown",
    crates: "std,panic_abort",
};

/// A target without an operating system, and therefore without `std`.
pub const BARE: Target = Target {
    triple: "wasm32v1-none",
    crates: "core,alloc",
};

const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm"];
const PACKAGED_RUSTC: &str = "/usr/bin/rustc";
const PACKAGED_CARGO: &str = "/usr/bin/cargo";
const PACKAGED_LINKER: &str = "/usr/bin/rust-lld";
/// Time limit for a download of about 30 MB.
pub const RUSTUP_LIMIT: Duration = Duration::from_secs(120);

/// A toolchain that can build for a [`Target`].
pub enum Toolchain {
    Active,
    /// Debian's toolchain, which contains the standard library only as source.
    Packaged {
        crates: &'static str,
    },
    /// Rustup's nightly toolchain, which builds the standard library from source.
    Nightly {
        crates: &'static str,
    },
}

impl Toolchain {
    /// Returns `cargo build` for `target` with exactly `flags`. Each set of flags needs
    /// its own target directory; otherwise every change of flags would rebuild
    /// everything.
    pub fn build(
        &self,
        workspace: &Workspace,
        directory: &str,
        target: &Target,
        flags: &str,
    ) -> Command {
        let into = workspace.target(directory);
        let mut rustc = match self {
            Self::Active => active_rustc(workspace),
            Self::Packaged { .. } => Command::new(PACKAGED_RUSTC),
            Self::Nightly { .. } => rust_source::nightly_rustc(),
        };
        let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        flags.extend(build_paths::remap(workspace, &mut rustc));
        let mut command = match self {
            Self::Active => {
                let mut command = cargo(workspace);
                command.env("CARGO_TARGET_DIR", into).arg("build");
                command
            }
            Self::Packaged { crates } => {
                let mut command = cargo_at(Path::new(PACKAGED_CARGO), &into);
                command
                    .env("RUSTC", PACKAGED_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    // Under `cargo run`, this contains the other toolchain's libraries.
                    .env_remove("LD_LIBRARY_PATH")
                    .arg("build")
                    .arg(format!("-Zbuild-std={crates}"));
                command
            }
            Self::Nightly { crates } => {
                let mut command = cargo_at(Path::new("rustup"), &into);
                command
                    // rustup sets these variables for this program's toolchain.
                    .env_remove("RUSTUP_TOOLCHAIN")
                    .env_remove("RUSTC")
                    .env_remove("LD_LIBRARY_PATH")
                    .current_dir(workspace.root())
                    .args(["run", NIGHTLY, "cargo", "build"])
                    .arg(format!("-Zbuild-std={crates}"));
                command
            }
        };
        build_paths::set_flags(&mut command, &flags);
        command.args(["--target", target.triple]);
        command
    }

    pub fn describe(&self) -> &'static str {
        match self {
            Self::Active => "active toolchain",
            Self::Packaged { .. } => "Debian's toolchain, std from source",
            Self::Nightly { .. } => "nightly toolchain, std from source",
        }
    }
}

/// Finds a toolchain for `target`, and installs one if there is none.
pub fn ready(workspace: &Workspace, step: &mut Step, target: &Target) -> Result<Toolchain> {
    if active_has(workspace, target) || rustup_adds(workspace, step, target) {
        return Ok(Toolchain::Active);
    }
    install_packaged(step, target).with_context(|| instructions(target))?;
    Ok(Toolchain::Packaged {
        crates: target.crates,
    })
}

/// Adds the standard library of `triple` to the active toolchain.
pub fn add(workspace: &Workspace, step: &mut Step, triple: &'static str) -> Result<()> {
    let target = Target { triple, crates: "" };
    if active_has(workspace, &target) || rustup_adds(workspace, step, &target) {
        return Ok(());
    }
    bail!("the active toolchain cannot build for {triple}; `rustup target add {triple}` adds that")
}

fn install_packaged(step: &mut Step, target: &Target) -> Result<()> {
    if !packaged_compiler() {
        let why = format!(
            "they build WebAssembly, which the active Rust toolchain cannot ({} is missing)",
            target.triple
        );
        apt::install(step, PACKAGES, &why)?;
    }
    if !packaged_compiler() {
        bail!(
            "rustc-web is not Rust {} or newer, or came without its source",
            env!("CARGO_PKG_RUST_VERSION")
        );
    }
    if let Some(linker) = packaged_linker_missing() {
        apt::install(
            step,
            &[&linker],
            "rust-lld, the linker for WebAssembly, is a link to it",
        )?;
    }
    Ok(())
}

fn instructions(target: &Target) -> String {
    format!(
        "no Rust toolchain here can build for {triple}. Type one of these, then try again:\n\
         \n    rustup target add {triple}\n    {apt} && \
         sudo apt-get install \"$(readlink {PACKAGED_LINKER})\"   (Debian)\n",
        triple = target.triple,
        apt = apt::by_hand(PACKAGES)
    )
}

/// Returns a command for the compiler that cargo uses here.
pub fn active_rustc(workspace: &Workspace) -> Command {
    let program = env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let mut command = Command::new(program);
    // A rust-toolchain file in the root selects the active toolchain.
    command.current_dir(workspace.root());
    command
}

pub fn rustlib(rustc: &mut Command) -> Option<PathBuf> {
    let sysroot = process::ask(rustc.args(["--print", "sysroot"])).ok()?;
    Some(Path::new(&sysroot).join("lib").join("rustlib"))
}

fn active_has(workspace: &Workspace, target: &Target) -> bool {
    rustlib(&mut active_rustc(workspace)).is_some_and(|lib| has_library(&lib, target.triple))
}

/// Returns whether the library exists. An interrupted download leaves an empty
/// directory, so the directory alone is not sufficient.
fn has_library(rustlib: &Path, triple: &str) -> bool {
    fs::read_dir(rustlib.join(triple).join("lib")).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libcore-") && name.ends_with(".rlib")
        })
    })
}

fn rustup_adds(workspace: &Workspace, step: &mut Step, target: &Target) -> bool {
    if process::find("rustup").is_none() {
        return false;
    }
    // Without a network, each attempt may take the whole time limit. A failure is
    // therefore recorded, and rustup is not tried again if there is an alternative.
    let failed = workspace.cache(&format!("rustup-without-{}", target.triple));
    if failed.exists() && packaged_is_complete() {
        return false;
    }
    step.say(&format!(
        "Adding {} with rustup: the active Rust toolchain cannot build for it yet.",
        target.triple
    ));
    let mut rustup = Command::new("rustup");
    rustup
        .args(["--quiet", "target", "add", target.triple])
        .current_dir(workspace.root())
        .env("RUSTUP_MAX_RETRIES", "0");
    let added =
        process::succeeds_within(&mut rustup, RUSTUP_LIMIT) && active_has(workspace, target);
    if !added {
        step.say("That did not work.");
        // This file only saves the next run an attempt.
        let _ = fs::create_dir_all(workspace.cache(""));
        let _ = fs::write(failed, "");
    }
    added
}

pub fn packaged_is_complete() -> bool {
    packaged_compiler() && packaged_linker_missing().is_none()
}

fn packaged_compiler() -> bool {
    let rustc = || Command::new(PACKAGED_RUSTC);
    let Ok(version) = process::ask(rustc().arg("--version")) else {
        return false;
    };
    let new_enough = process::version(&version) >= process::version(env!("CARGO_PKG_RUST_VERSION"));
    let has_source = rustlib(&mut rustc()).is_some_and(|lib| rust_source::is_in(&lib));
    new_enough
        && has_source
        && Path::new(PACKAGED_CARGO).is_file()
        && fs::symlink_metadata(PACKAGED_LINKER).is_ok()
}

/// Returns the package of the linker, derived from the target of another package's
/// dangling link.
fn packaged_linker_missing() -> Option<String> {
    let linker = Path::new(PACKAGED_LINKER);
    if linker.exists() {
        return None;
    }
    let package = fs::read_link(linker).ok()?;
    Some(package.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_library_directory_is_no_library() {
        let rustlib = env::temp_dir().join(format!("xtask-rustlib-{}", std::process::id()));
        let lib = rustlib.join(BARE.triple).join("lib");
        fs::create_dir_all(&lib).expect("scratch directory");
        assert!(!has_library(&rustlib, BARE.triple));
        fs::write(lib.join("libcore-0123.rlib"), "").expect("scratch file");
        assert!(has_library(&rustlib, BARE.triple));
        assert!(!has_library(&rustlib, WEB.triple));
        fs::remove_dir_all(rustlib).expect("removed");
    }

    #[test]
    fn instructions_name_whole_commands() {
        let text = instructions(&WEB);
        assert!(text.contains("rustup target add wasm32-unknown-unknown"));
        assert!(text.contains("sudo apt-get install"));
    }
}
