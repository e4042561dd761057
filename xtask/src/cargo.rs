//! Runs cargo from `cargo run`, and builds what the tests need.

use std::env;

use crate::prelude::*;

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
    let program = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = cargo_at(&program, "");
    command.words(line);
    command
}

/// Returns the cargo `program`, which builds into the folder `into` of the target
/// directory.
pub fn cargo_at(program: &Path, into: &str) -> Command {
    let mut command = Command::new(program);
    set_environment(&mut command, into);
    command.current_dir(paths::root());
    command
}

/// Prepares a command that runs cargo.
pub fn set_environment(command: &mut Command, into: &str) {
    for (name, _) in env::vars_os() {
        let (text, mut prefixes) = (name.to_string_lossy(), INHERITED_PREFIXES.iter());
        if prefixes.any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
        .env("CARGO_TARGET_DIR", target(into))
        // Programs are expected in target/<profile>, not in target/<triple>/<profile>.
        .env_remove("CARGO_BUILD_TARGET");
}

/// Returns the compiler that cargo uses here.
pub fn rustc() -> Command {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(program);
    // A rust-toolchain file in the root selects the active toolchain.
    command.current_dir(paths::root());
    command
}

/// Returns a field of the verbose version of the compiler, such as `host`.
pub fn rustc_field(name: &str) -> Result<String> {
    let said = ask(rustc().arg("-vV"))?;
    let start = format!("{name}: ");
    let field = said.lines().find_map(|line| line.strip_prefix(&start));
    field
        .map(str::to_owned)
        .with_context(|| format!("rustc does not name its {name}"))
}

/// Returns cargo's home folder, which contains its downloads.
pub fn home() -> Result<PathBuf> {
    let named = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let default = || Some(env::home_dir()?.join(".cargo"));
    let home = named.map(PathBuf::from).or_else(default);
    home.context("cargo has no home folder")
}

/// Returns the arguments for `rustc` that remove this machine's paths from panic
/// messages. Without them, a build is the same in every folder and for every user.
pub fn remapped(rustc: &mut Command) -> Result<Vec<String>> {
    let mut replaced = vec![(paths::root().to_path_buf(), ".")];
    // cargo has one folder for each registry, with a name derived from its address.
    // `cargo publish --dry-run` leaves one without a host name. If it changed the flags,
    // everything would be compiled again.
    for registry in paths::entries(&home()?.join("registry/src")).unwrap_or_default() {
        let name = registry.file_name().unwrap_or_default();
        if !name.to_string_lossy().starts_with('-') {
            replaced.push((registry, "/crates"));
        }
    }
    let sysroot = PathBuf::from(ask(rustc.words("--print sysroot"))?);
    let source = sysroot.join("lib/rustlib/src/rust");
    replaced.push((fs::canonicalize(&source).unwrap_or(source), "/rust"));
    let flag =
        |(from, to): &(PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    Ok(replaced.iter().map(flag).collect())
}

/// Sets exactly these flags for a cargo build.
pub fn set_flags(command: &mut Command, flags: &[String]) {
    command
        .env_remove("RUSTFLAGS")
        // Unlike `RUSTFLAGS`, this variable supports flags that contain spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
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
    let sysroot = ask(rustc().words("--print sysroot")).ok()?;
    let program = format!("{sysroot}/bin/clippy-driver{}", env::consts::EXE_SUFFIX);
    Some(PathBuf::from(program)).filter(|program| program.is_file())
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
