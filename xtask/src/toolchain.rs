//! Toolchains that can build for other targets than this machine.
//!
//! There are three ways to build for WebAssembly, in this order: the active toolchain
//! contains the target's standard library; rustup adds it; Debian's toolchain builds it
//! from source. Only the library in the sysroot matters, not whether rustup is
//! installed: many toolchains come without rustup, and some with a rustup that cannot
//! download.

use crate::cargo::cargo_at;
use crate::debian;
use crate::prelude::*;
use crate::process::find;

/// The oldest supported Rust, `rust-version` in `Cargo.toml`.
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");
/// Stable compilers cannot build the standard library from source.
const NIGHTLY: &str = "nightly";

/// A target, with the crates of the standard library that it needs.
pub struct Target {
    pub triple: &'static str,
    crates: &'static str,
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

/// A toolchain that can build for a [`Target`].
#[derive(Clone, Copy)]
pub enum Toolchain {
    Active,
    /// Debian's toolchain, which contains the standard library only as source.
    Packaged,
    /// Rustup's nightly toolchain, which builds the standard library from source.
    Nightly,
}

impl Toolchain {
    /// Returns `cargo build` for `target` with exactly `flags`. Each set of flags needs
    /// its own folder `into`; otherwise every change of flags would rebuild everything.
    pub fn build(self, into: &str, target: &Target, flags: &str) -> Result<Command> {
        let mut command = match self {
            Self::Active => cargo("build"),
            Self::Packaged => {
                let mut command = cargo_at(Path::new(PACKAGED_CARGO), into);
                command.env("RUSTC", PACKAGED_RUSTC);
                // Under `cargo run`, this contains the other toolchain's libraries.
                command.env_remove("LD_LIBRARY_PATH");
                command.env("RUSTC_BOOTSTRAP", "1").arg("build");
                command
            }
            Self::Nightly => rustup_run(NIGHTLY, "cargo build"),
        };
        if !matches!(self, Self::Active) {
            command.arg(format!("-Zbuild-std={}", target.crates));
        }
        let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        flags.extend(cargo::remapped(&mut self.rustc())?);
        cargo::set_flags(&mut command, &flags);
        command.env("CARGO_TARGET_DIR", paths::target(into));
        command.args(["--target", target.triple]);
        Ok(command)
    }

    fn rustc(self) -> Command {
        match self {
            Self::Active => cargo::rustc(),
            Self::Packaged => Command::new(PACKAGED_RUSTC),
            Self::Nightly => rustup_run(NIGHTLY, "rustc"),
        }
    }

    pub fn version(self) -> Result<String> {
        ask(self.rustc().arg("--version"))
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::Active => "active toolchain",
            Self::Packaged => "Debian's toolchain, std from source",
            Self::Nightly => "nightly toolchain, std from source",
        }
    }
}

/// Returns a command of rustup's toolchain `name`, without the variables that rustup and
/// cargo set for this program's toolchain.
fn rustup_run(name: &str, line: &str) -> Command {
    let mut command = cargo_at(Path::new("rustup"), "");
    command.args(["run", name]).words(line);
    for variable in ["RUSTUP_TOOLCHAIN", "RUSTC", "LD_LIBRARY_PATH"] {
        command.env_remove(variable);
    }
    command
}

/// Finds a toolchain for `target`, and installs one if there is none.
pub fn ready(step: &mut Step, target: &Target) -> Result<Toolchain> {
    let triple = target.triple;
    if add(step, triple).is_ok() {
        return Ok(Toolchain::Active);
    }
    let instructions = || {
        format!(
            "no Rust toolchain here can build for {triple}. Type one of these, then try again:\n\
             \n    rustup target add {triple}\n    {} && sudo apt-get install \"$(readlink \
             {PACKAGED_LINKER})\"   (Debian)\n",
            debian::by_hand(PACKAGES)
        )
    };
    packaged(step, triple).with_context(instructions)?;
    Ok(Toolchain::Packaged)
}

fn packaged(step: &mut Step, triple: &str) -> Result<()> {
    if !has_packaged_compiler() {
        let why = format!(
            "they build WebAssembly, which the active Rust toolchain cannot ({triple} is missing)"
        );
        debian::install(step, PACKAGES, &why)?;
    }
    if !has_packaged_compiler() {
        bail!("rustc-web is not Rust {OLDEST_RUST} or newer, or came without its source");
    }
    if let Some(package) = missing_linker() {
        let why = "rust-lld, the linker for WebAssembly, is a link to it";
        debian::install(step, &[&package], why)?;
    }
    Ok(())
}

/// Adds the standard library of `triple` to the active toolchain, unless it has it.
pub fn add(step: &mut Step, triple: &str) -> Result<()> {
    let has_library = || {
        // An interrupted download leaves an empty folder.
        let library = rustlib(&mut cargo::rustc()).map(|lib| lib.join(triple).join("lib"));
        let files = library.and_then(|library| paths::files(&library, &["rlib"]).ok());
        files.is_some_and(|files| !files.is_empty())
    };
    let sentence =
        format!("Adding {triple} with rustup: the active Rust toolchain cannot build for it yet.");
    let line = format!("--quiet target add {triple}");
    if has_library() || rustup(step, &sentence, triple, &line, has_library) {
        return Ok(());
    }
    bail!("the active toolchain cannot build for {triple}; `rustup target add {triple}` adds that")
}

/// Finds a toolchain that builds the standard library from source, for flags that the
/// prebuilt library does not have. Installs at most the source. The error is a sentence
/// that names the missing component and the command that installs it.
pub fn from_source(step: &mut Step) -> Result<Toolchain, String> {
    let nightly = || rustup_run(NIGHTLY, "rustc");
    let has_source = || find("rustup").is_some() && has_source(&mut nightly());
    let sentence =
        "Adding the source of the standard library to the nightly toolchain with rustup.";
    let line = format!("--quiet component add rust-src --toolchain {NIGHTLY}");
    let has_nightly = find("rustup").is_some() && ask(nightly().arg("--version")).is_ok();
    if has_nightly && (has_source() || rustup(step, sentence, "rust-src", &line, has_source)) {
        return Ok(Toolchain::Nightly);
    }
    if has_packaged_compiler() && missing_linker().is_none() {
        return Ok(Toolchain::Packaged);
    }
    Err(format!(
        "it takes the source of Rust's standard library: type \
         `rustup toolchain install {NIGHTLY} --component rust-src`"
    ))
}

/// Checks all crates with the oldest supported Rust in about a minute, if rustup can
/// install it.
pub fn check_oldest(step: &mut Step) -> Result<()> {
    let run = |line: &str| rustup_run(OLDEST_RUST, line);
    let is_installed = || ask(&mut run("rustc --version")).is_ok();
    let sentence =
        format!("Installing Rust {OLDEST_RUST} with rustup: all crates have to build with it.");
    let line =
        format!("--quiet toolchain install {OLDEST_RUST} --profile minimal --no-self-update");
    if find("rustup").is_none()
        || !is_installed() && !rustup(step, &sentence, OLDEST_RUST, &line, is_installed)
    {
        step.note(format!("rustup cannot install {OLDEST_RUST}: left out"));
        return Ok(());
    }
    step.note(format!("Rust {OLDEST_RUST}"));
    let mut check = run("cargo check --locked --workspace");
    // Another compiler's results cannot be reused.
    check.env("CARGO_TARGET_DIR", target("oldest-rust"));
    step.run(check.env("CARGO_INCREMENTAL", "0"))
}

/// Runs rustup, and returns whether it has installed `what`. Without a network, this may
/// take the whole time limit, for a download of about 30 MB. A failure is therefore
/// recorded, and not repeated if there is an alternative.
fn rustup(
    step: &mut Step,
    sentence: &str,
    what: &str,
    line: &str,
    is_ready: impl Fn() -> bool,
) -> bool {
    let failed = cache(format!("rustup-without-{what}"));
    if find("rustup").is_none() || failed.exists() && has_packaged_compiler() {
        return false;
    }
    step.say(sentence);
    let limit = if find("timeout").is_some() {
        "timeout 120 "
    } else {
        ""
    };
    let mut rustup = cmd(&format!("{limit}rustup {line}"));
    if step.run(rustup.env("RUSTUP_MAX_RETRIES", "0")).is_ok() && is_ready() {
        return true;
    }
    step.say("That did not work.");
    // This file only saves the next run an attempt.
    let _ = fs::create_dir_all(cache("")).and_then(|()| fs::write(failed, ""));
    false
}

/// Returns the folder of the standard libraries in a compiler's sysroot.
fn rustlib(rustc: &mut Command) -> Option<PathBuf> {
    let sysroot = ask(rustc.words("--print sysroot")).ok()?;
    Some(Path::new(&sysroot).join("lib/rustlib"))
}

fn has_source(rustc: &mut Command) -> bool {
    rustlib(rustc).is_some_and(|lib| lib.join("src/rust/library/Cargo.lock").is_file())
}

fn has_packaged_compiler() -> bool {
    let rustc = || Command::new(PACKAGED_RUSTC);
    let version = ask(rustc().arg("--version")).unwrap_or_default();
    process::version(&version) >= process::version(OLDEST_RUST)
        && has_source(&mut rustc())
        && Path::new(PACKAGED_CARGO).is_file()
        && fs::symlink_metadata(PACKAGED_LINKER).is_ok()
}

/// Returns the package of the linker, derived from the target of another package's
/// dangling link.
fn missing_linker() -> Option<String> {
    let linker = Path::new(PACKAGED_LINKER);
    let package = fs::read_link(linker).ok().filter(|_| !linker.exists())?;
    Some(package.file_name()?.to_string_lossy().into_owned())
}
