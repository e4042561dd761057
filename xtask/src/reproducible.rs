//! The verb `reproducible`, which builds the shipped artifacts twice, in different
//! folders and for users with different names, and compares the bytes.

use crate::args::{Reproducible, Wasm};
use crate::prelude::*;
use crate::release::{digest, npm_tarball, static_program};
use crate::wasm::{self, CORE};

/// The built viewer, which is part of the program.
const PAGE: &str = "native/serve/viewer/page.archive";

/// Builds everything twice, and compares the results.
pub fn run(options: &Reproducible) -> Result<()> {
    let only = options.only.clone();
    wasm::run(&Wasm {
        no_package: only.is_some(),
        only,
    })?;
    // The name is longer than that of any other folder in this repository.
    let copy = target("reproducible/a-clone-somewhere-else");
    step("the same sources in another folder", |step| {
        copy_sources(step, &copy)
    })?;
    let line = match &options.only {
        Some(name) => format!("wasm --only {name} --no-package"),
        None => "wasm".into(),
    };
    report::run(
        "modules and npm package once more",
        &mut xtask(&copy, &line)?,
    )?;
    let mut pairs = Vec::new();
    for there in paths::files(&copy.join(CORE), &["wasm"])? {
        pairs.push((path(there.strip_prefix(&copy)?), there));
    }
    // If only one module was built, the package is incomplete and cannot be compared.
    if options.only.is_none() {
        step("npm tarballs", |step| {
            let [here, there] = ["here", "there"].map(|name| target("reproducible").join(name));
            let here = npm_tarball(step, paths::root(), &here)?;
            pairs.push((here, npm_tarball(step, &copy, &there)?));
            Ok(())
        })?;
    }
    if options.native {
        let here = static_program()?;
        if path(PAGE).exists() {
            fs::create_dir_all(copy.join(PAGE).with_file_name(""))?;
            fs::copy(path(PAGE), copy.join(PAGE))?;
        }
        report::run(
            "static program once more",
            &mut xtask(&copy, "release --only-program")?,
        )?;
        let there = copy.join("target").join(here.strip_prefix(target(""))?);
        pairs.push((here, there));
    }
    step("comparison", |step| compare(step, &pairs))
}

/// Copies all files that git tracks, and those that it does not ignore, to `copy`.
fn copy_sources(step: &mut Step, copy: &Path) -> Result<()> {
    paths::empty(copy)?;
    let mut git = cmd("git ls-files --cached --others --exclude-standard");
    let names = ask(git.current_dir(paths::root()))?;
    // A file may have been removed without a commit.
    let names = names.lines().filter(|name| path(name).exists());
    for name in names.clone() {
        let to = copy.join(name);
        fs::create_dir_all(to.with_file_name(""))?;
        fs::copy(path(name), to)?;
    }
    step.note(format!("{} files", names.count()));
    Ok(())
}

/// Returns a command that runs this program for the copy, without using any builds of
/// the original, and with the downloads of cargo below another path.
fn xtask(copy: &Path, line: &str) -> Result<Command> {
    let home = target("reproducible/cargo-home");
    paths::empty(&home)?;
    for entry in paths::entries(&cargo::home()?)? {
        paths::link(&entry, &home.join(entry.file_name().unwrap_or_default()))?;
    }
    let mut command = Command::new(paths::this_program());
    command
        .words(line)
        .current_dir(copy)
        // This program finds its workspace with this variable.
        .env("CARGO_MANIFEST_DIR", copy.join("xtask"))
        .env("CARGO_HOME", home)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env("CARGO_INCREMENTAL", "0");
    Ok(command)
}

/// Prints a line for each artifact. Different bytes are an error.
fn compare(step: &mut Step, pairs: &[(PathBuf, PathBuf)]) -> Result<()> {
    let mut different = Vec::new();
    for (here, there) in pairs {
        let name = here.file_name().unwrap_or_default().to_string_lossy();
        let (one, two) = (digest(here)?, digest(there)?);
        let outcome = match one == two {
            true => format!("the same   {}", one.0),
            false => format!("differs from one of {} bytes", two.1),
        };
        step.after(format!("{name:<24}  {:>10}  {outcome}", one.1));
        if one != two {
            different.push(name);
        }
    }
    ensure!(
        different.is_empty(),
        "built twice, these are not the same: {}. A path of this machine in them is the most likely \
         reason (`remapped` in xtask/src/cargo.rs)",
        different.join(", ")
    );
    step.note(format!("{} artifacts are the same", pairs.len()));
    Ok(())
}
