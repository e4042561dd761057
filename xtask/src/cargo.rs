//! Runs cargo from `cargo run`, builds what the tests need, and finds toolchains that
//! build for other targets than this machine.

use std::env;

use crate::prelude::*;

/// The target for browsers and Node.
pub const WEB: &str = "wasm32-unknown-unknown";
/// A target without an operating system, and therefore without `std`.
pub const BARE: &str = "wasm32v1-none";

/// The oldest supported Rust, `rust-version` in `Cargo.toml`.
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");
/// The toolchain that builds the standard library from source, which stable ones cannot
/// do.
const NIGHTLY: &str = "nightly";

/// Prefixes of variables that `cargo run` sets for this program. Build scripts that
/// depend on them would run again on every change between `cargo xtask` and plain
/// `cargo`.
const INHERITED_PREFIXES: &[&str] = &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// The selections of packages that are built for tests, each for itself: cargo compiles
/// dependencies again for each selection with different features. This program's
/// package is separate, because `cargo xtask` has just built its dependencies.
const SELECTIONS: [&str; 2] = ["--workspace --exclude xtask", "--package xtask"];

/// Returns the active toolchain's cargo with the arguments of `line`, which builds into
/// this repository's target directory.
pub fn cargo(line: &str) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    set_environment(&mut command);
    command.words(line);
    command
}

/// Sets the folder and the environment variables of a command that runs cargo.
pub fn set_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let (text, mut prefixes) = (name.to_string_lossy(), INHERITED_PREFIXES.iter());
        if prefixes.any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
        .current_dir(paths::root())
        .env("CARGO_TARGET_DIR", target(""))
        // Programs are expected in target/<profile>, not in target/<triple>/<profile>.
        .env_remove("CARGO_BUILD_TARGET");
}

/// Returns a command that runs the compiler of the active toolchain.
fn rustc() -> Command {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    // A rust-toolchain file in the root selects the active toolchain.
    command.current_dir(paths::root());
    command
}

/// Returns a field of the verbose version of the compiler, such as `host`.
pub fn rustc_field(name: &str) -> Result<String> {
    let said = ask(rustc().arg("-vV"))?;
    let start = format!("{name}: ");
    let field = said.lines().find_map(|line| line.strip_prefix(&start));
    let field = field.with_context(|| format!("rustc does not name its {name}"))?;
    Ok(field.to_owned())
}

fn sysroot(mut rustc: Command) -> Result<PathBuf> {
    Ok(ask(rustc.words("--print sysroot"))?.into())
}

/// Returns cargo's home folder, which contains its downloads.
pub fn home() -> Result<PathBuf> {
    let named = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let default = || Some(env::home_dir()?.join(".cargo"));
    let home = named.map(PathBuf::from).or_else(default);
    home.context("cargo has no home folder")
}

/// Sets exactly these flags for a cargo build.
pub fn set_flags(command: &mut Command, flags: &[String]) {
    command
        .env_remove("RUSTFLAGS")
        // Unlike `RUSTFLAGS`, this variable supports flags that contain spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
}

/// A toolchain that builds without paths of this machine in panic messages, also for
/// other targets.
#[derive(Clone, Copy)]
pub enum Toolchain {
    Active,
    /// Rustup's nightly toolchain, which builds the standard library from source for
    /// flags that the prebuilt library does not have.
    Nightly,
}

impl Toolchain {
    /// Returns `cargo build` for `triple` with exactly `flags`. Each set of flags needs
    /// its own folder `into`; otherwise every change of flags would rebuild everything.
    pub fn build(self, into: &str, triple: &str, flags: &str) -> Result<Command> {
        let mut command = match self {
            Self::Active => cargo("build"),
            Self::Nightly => rustup_run(NIGHTLY, "cargo build -Zbuild-std=std,panic_abort"),
        };
        command.args(["--target", triple]);
        command.env("CARGO_TARGET_DIR", target(into));
        let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        flags.append(&mut self.remapped()?);
        set_flags(&mut command, &flags);
        Ok(command)
    }

    /// Returns the arguments for `rustc` that remove this machine's paths from panic
    /// messages. Without them, a build is not the same in every folder and for every user.
    pub fn remapped(self) -> Result<Vec<String>> {
        let mut replaced = vec![(paths::root().to_path_buf(), ".")];
        // cargo has one folder for each registry, with a name derived from its address.
        // `cargo publish --dry-run` leaves one without a host name. If it changed the flags,
        // everything would be compiled again.
        for registry in paths::entries(&home()?.join("registry/src")).unwrap_or_default() {
            if !paths::name(&registry).starts_with('-') {
                replaced.push((registry, "/crates"));
            }
        }
        let source = sysroot(self.rustc())?.join("lib/rustlib/src/rust");
        replaced.push((fs::canonicalize(&source).unwrap_or(source), "/rust"));
        let flag =
            |(from, to): &(PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
        Ok(replaced.iter().map(flag).collect())
    }

    fn rustc(self) -> Command {
        match self {
            Self::Active => rustc(),
            Self::Nightly => rustup_run(NIGHTLY, "rustc"),
        }
    }

    pub fn version(self) -> Result<String> {
        ask(self.rustc().arg("--version"))
    }
}

/// Refuses a folder in which a file contains a path of this machine: the workspace's, or
/// the path of cargo's downloads.
pub fn refuse_paths(folder: &Path) -> Result<()> {
    const BYTES_SHOWN: usize = 120;
    let refused = [paths::root().to_path_buf(), home()?];
    for file in paths::walk(folder, &|_| true)? {
        let contents = fs::read(&file)?;
        for path in &refused {
            let path = path.as_os_str().as_encoded_bytes();
            let mut windows = contents.windows(path.len());
            if let Some(at) = windows.position(|window| window == path) {
                let found = contents.iter().skip(at).take(BYTES_SHOWN).copied();
                bail!(
                    "{} contains a path of this machine (see `remapped`): {}",
                    paths::show(&file),
                    found.collect::<Vec<u8>>().escape_ascii()
                );
            }
        }
    }
    Ok(())
}

/// Returns a command of rustup's toolchain `name`, without the variables that rustup and
/// cargo set for this program's toolchain.
fn rustup_run(name: &str, line: &str) -> Command {
    let mut command = cmd("rustup run");
    set_environment(&mut command);
    for variable in ["RUSTUP_TOOLCHAIN", "RUSTC", "LD_LIBRARY_PATH"] {
        command.env_remove(variable);
    }
    command.arg(name).words(line);
    command
}

/// Adds the standard library of `triple` to the active toolchain, unless it has it.
pub fn add_target(step: &mut Step, triple: &str) -> Result<Toolchain> {
    let library = sysroot(rustc())?
        .join("lib/rustlib")
        .join(triple)
        .join("lib");
    // An interrupted download leaves an empty folder.
    if paths::files(&library, "rlib").is_ok_and(|files| !files.is_empty()) {
        return Ok(Toolchain::Active);
    }
    step.say(&format!("Adding {triple} with rustup, to build for it."));
    let line = format!("rustup --quiet target add {triple}");
    let by_hand =
        || format!("the active Rust toolchain cannot build for {triple}; `{line}` adds that");
    step.run(cmd(&line).env("RUSTUP_MAX_RETRIES", "0"))
        .with_context(by_hand)?;
    Ok(Toolchain::Active)
}

/// Returns the nightly toolchain, which has the source of the standard library. If it is
/// missing and `installs` is true, rustup installs it.
pub fn nightly(step: &mut Step, installs: bool) -> Result<Toolchain> {
    let has_source = || {
        let source = sysroot(rustup_run(NIGHTLY, "rustc"));
        let manifest = source.map(|root| root.join("lib/rustlib/src/rust/library/Cargo.lock"));
        manifest.is_ok_and(|manifest| manifest.is_file())
    };
    if installs && !has_source() {
        step.say("Installing nightly Rust with rustup: it builds zstn/threads.");
        let mut install = cmd("rustup --quiet toolchain install --no-self-update");
        install
            .words("--profile minimal --component rust-src")
            .arg(NIGHTLY);
        step.run(install.env("RUSTUP_MAX_RETRIES", "0"))?;
    }
    ensure!(
        has_source(),
        "it takes the source of Rust's standard library: type \
         `rustup toolchain install {NIGHTLY} --component rust-src`"
    );
    Ok(Toolchain::Nightly)
}

/// Checks all crates with the oldest supported Rust in about a minute, if rustup can
/// install it.
pub fn check_oldest(step: &mut Step) -> Result<()> {
    let is_installed = || ask(&mut rustup_run(OLDEST_RUST, "rustc --version")).is_ok();
    if !is_installed() {
        step.say(&format!(
            "Installing Rust {OLDEST_RUST} with rustup: all crates build with it."
        ));
        let line = "rustup --quiet toolchain install --profile minimal --no-self-update";
        if step.run(cmd(line).arg(OLDEST_RUST)).is_err() || !is_installed() {
            step.note(format!("rustup cannot install {OLDEST_RUST}: left out"));
            return Ok(());
        }
    }
    step.note(format!("Rust {OLDEST_RUST}"));
    let mut check = rustup_run(OLDEST_RUST, "cargo check --locked --workspace");
    // Another compiler's results cannot be reused.
    check.env("CARGO_TARGET_DIR", target("oldest-rust"));
    step.run(check.env("CARGO_INCREMENTAL", "0"))
}

/// Returns a cargo command for builds with the dev profile. It uses clippy as the
/// compiler of the workspace's crates, so that linting does not need a second build.
fn dev(line: &str) -> Command {
    let mut command = cargo(line);
    if let Some(clippy) = clippy() {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy);
    }
    // Incremental files take 3 GB, and a build without them is faster.
    command.env("CARGO_INCREMENTAL", "0");
    command
}

/// Returns the path of clippy's compiler driver, which is in the same folder as
/// `rustc`.
fn clippy() -> Option<PathBuf> {
    let name = format!("bin/clippy-driver{}", env::consts::EXE_SUFFIX);
    let program = sysroot(rustc()).ok()?.join(name);
    program.is_file().then_some(program)
}

/// Builds a program of the product with the release profile, and returns its path.
pub fn release(package: &str, name: &str) -> Result<PathBuf> {
    let mut build = cargo("build --release");
    let title = format!("{name}, release build");
    steps::run(&title, build.words(package))?;
    Ok(program(&format!("release/{name}")))
}

/// Compiles and lints all Rust programs and tests with the dev profile: the command
/// line, the fault server, the stub hub, and the libraries for C and Python.
pub fn programs() -> Result<()> {
    static SHARED: Shared<()> = Shared::new();
    let build = |step: &mut Step| {
        let mut selections = SELECTIONS.iter();
        selections.try_for_each(|packages| step.run(dev("build --all-targets").words(packages)))
    };
    SHARED.get(|| {
        step("compile and lint", build)?;
        // Cargo repeats the warnings of crates that are up to date.
        check("clippy", |step| {
            clippy().context("clippy is missing: `rustup component add clippy` installs it")?;
            build(step)?;
            let output = step.output()?;
            let mut lines = output.lines();
            ensure!(
                !lines.any(|line| line.starts_with("warning: ")),
                "there are warnings"
            );
            Ok(())
        });
        Ok(())
    })
}

/// Returns a command that runs the product's tests, which [`programs`] has built.
pub fn test() -> Command {
    let mut test = dev("test");
    test.words(SELECTIONS[0]);
    test
}

/// Returns commands that run all tests, which [`programs`] has built.
pub fn all_tests() -> [Command; 2] {
    SELECTIONS.map(|packages| {
        let mut test = dev("test --no-fail-fast");
        test.words(packages);
        test
    })
}
