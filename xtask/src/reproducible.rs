//! The verb `reproducible`, which builds the shipped artifacts twice, in different
//! folders and for users with different names, and compares the bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::args::{Reproducible, Wasm};
use crate::release::{npm_tarball, static_program};
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{build_paths, process, wasm};

/// The folder of the second build, whose name is longer than any other in this
/// repository.
const ELSEWHERE: &str = "reproducible/a-clone-somewhere-else";
const MODULES: &str = "wasm/dist/core";

/// Builds everything twice, and compares the results.
pub fn run(workspace: &Workspace, report: &Report, options: &Reproducible) -> Result<()> {
    let only = Wasm {
        only: options.only.clone(),
        no_package: options.only.is_some(),
    };
    wasm::run(workspace, report, &only)?;
    let copy = report.step("the same sources in another folder", |step| {
        Copy::new(workspace, step)
    })?;
    report.step("modules and npm package once more", |step| {
        let mut again = copy.xtask()?;
        again.arg("wasm");
        if let Some(name) = &options.only {
            again.args(["--only", name, "--no-package"]);
        }
        step.run(&mut again)
    })?;
    let mut pairs = Vec::new();
    for name in modules(&copy.root.join(MODULES))? {
        let path = format!("{MODULES}/{name}");
        pairs.push((name, workspace.path(&path), copy.root.join(&path)));
    }
    // If only one module was built, the package is incomplete and cannot be compared.
    if options.only.is_none() {
        report.step("npm tarballs", |step| {
            let here = workspace.target("reproducible/here");
            let here = npm_tarball(step, workspace.root(), &here)?;
            let there = workspace.target("reproducible/there");
            let there = npm_tarball(step, &copy.root, &there)?;
            pairs.push(("npm tarball".to_owned(), here, there));
            Ok(())
        })?;
    }
    if options.native {
        let here = report.step("static program", |step| static_program(workspace, step))?;
        let there = report.step("static program once more", |step| {
            // Without the page, the program would differ.
            let page = "native/serve/viewer/page.archive";
            if workspace.path(page).exists() {
                fs::create_dir_all(copy.root.join("native/serve/viewer"))?;
                fs::copy(workspace.path(page), copy.root.join(page))?;
            }
            step.run(copy.xtask()?.args(["release", "--only-program"]))?;
            Ok(copy.root.join("target").join(relative(workspace, &here)?))
        })?;
        pairs.push(("static program".to_owned(), here, there));
    }
    report.step("comparison", |step| compare(step, &pairs))
}

/// A second clone of the repository, with a second home folder of cargo.
struct Copy {
    root: PathBuf,
    home: PathBuf,
}

impl Copy {
    /// Copies all files that git tracks, and those that it does not ignore.
    fn new(workspace: &Workspace, step: &mut Step) -> Result<Self> {
        let root = workspace.target(ELSEWHERE);
        let home = workspace.target("reproducible/cargo-home");
        for folder in [&root, &home] {
            if folder.exists() {
                fs::remove_dir_all(folder)
                    .with_context(|| format!("{} cannot be removed", folder.display()))?;
            }
            fs::create_dir_all(folder)?;
        }
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(workspace.root());
        let mut count = 0;
        for name in process::ask(&mut git)?.lines() {
            let (from, to) = (workspace.path(name), root.join(name));
            // The file has been removed without a commit.
            if !from.exists() {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file has a folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("{name} cannot be copied"))?;
            count += 1;
        }
        link_all(
            &build_paths::cargo_home().context("cargo has no home")?,
            &home,
        )?;
        step.note(format!("{count} files"));
        Ok(Self { root, home })
    }

    /// Returns a command that runs this program for the copy, without using any builds
    /// of the original.
    fn xtask(&self) -> Result<Command> {
        let this = env::current_exe().context("this program does not know its own path")?;
        let mut command = Command::new(this);
        command
            .current_dir(&self.root)
            // This program finds its workspace with this variable.
            .env("CARGO_MANIFEST_DIR", self.root.join("xtask"))
            .env("CARGO_HOME", &self.home)
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            .env("CARGO_INCREMENTAL", "0");
        Ok(command)
    }
}

/// Links the downloaded files below another path.
#[cfg(unix)]
fn link_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("{} is unreadable", from.display()))? {
        let entry = entry?;
        std::os::unix::fs::symlink(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn link_all(_: &Path, _: &Path) -> Result<()> {
    bail!("builds are compared on Unix only")
}

fn modules(folder: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} is unreadable", folder.display()))?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".wasm")).collect();
    names.sort();
    Ok(names)
}

fn relative<'a>(workspace: &Workspace, path: &'a Path) -> Result<&'a Path> {
    path.strip_prefix(workspace.target(""))
        .context("what is built is below the target directory")
}

/// Prints a line for each artifact. Different bytes are an error.
fn compare(step: &mut Step, pairs: &[(String, PathBuf, PathBuf)]) -> Result<()> {
    let width = pairs.iter().map(|pair| pair.0.len()).max().unwrap_or(0);
    let mut different = Vec::new();
    for (name, here, there) in pairs {
        let read = |path: &Path| {
            fs::read(path).with_context(|| format!("{} is unreadable", path.display()))
        };
        let (one, two) = (read(here)?, read(there)?);
        let digest = crate::release::hex(&Sha256::digest(&one));
        let first = one.iter().zip(&two).position(|(a, b)| a != b);
        let outcome = match first {
            None if one.len() == two.len() => format!("the same   {digest}"),
            None => format!("{} and {} bytes", one.len(), two.len()),
            Some(offset) => format!("differs from byte {offset} on"),
        };
        if one != two {
            different.push(name.as_str());
        }
        step.after(format!("{name:<width$}  {:>10}  {outcome}", one.len()));
    }
    if !different.is_empty() {
        bail!(
            "built twice, these are not the same: {}. A path of this machine in them is the most \
             likely reason (xtask/src/build_paths.rs)",
            different.join(", ")
        );
    }
    step.note(format!("{} artifacts are the same", pairs.len()));
    Ok(())
}
