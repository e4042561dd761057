//! The checks of the Rust code: format, lints, documentation, builds without
//! `std`, tests.

use anyhow::Result;

use crate::cargo::cargo;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{counts, no_std, programs};

/// Makes warnings of clippy errors.
const DENY: [&str; 3] = ["--", "-D", "warnings"];
const BARE_CORE: [&str; 3] = ["--package", "zstn-core", "--no-default-features"];

/// Runs all of them.
pub fn all(workspace: &Workspace, report: &mut Report) -> Result<()> {
    lints(workspace, report)?;
    report.step("clippy, core without features", |step| {
        step.run(
            cargo(workspace)
                .arg("clippy")
                .args(BARE_CORE)
                .arg("--all-targets")
                .args(DENY),
        )
    })?;
    report.step("documentation", |step| documentation(workspace, step))?;
    for (title, features) in [
        ("core without std", &["pure-hashes"][..]),
        (
            "core without std, everything that can",
            &["pure-encoder", "brotli", "pure-hashes"],
        ),
    ] {
        report.step(title, |step| no_std::build_core(workspace, step, features))?;
    }
    report.step("cargo test, core without features", |step| {
        step.run(cargo(workspace).arg("test").args(BARE_CORE).arg("--lib"))
    })?;
    tests(workspace, report)
}

/// Checks the format and runs clippy on all crates.
pub fn lints(workspace: &Workspace, report: &mut Report) -> Result<()> {
    report.step("format", |step| {
        step.run(cargo(workspace).args(["fmt", "--all", "--check"]))
    })?;
    report.step("clippy", |step| {
        step.run(
            cargo(workspace)
                .args(["clippy", "--workspace", "--all-targets"])
                .args(DENY),
        )
    })
}

/// Builds all programs with the dev profile and tests all crates.
pub fn tests(workspace: &Workspace, report: &mut Report) -> Result<()> {
    report.step("programs and tests, dev build", |step| {
        programs::build_all(workspace, step)
    })?;
    report.step("cargo test", |step| {
        let mut test = cargo(workspace);
        test.args(["test", "--workspace"])
            .env("ZSTN_BIN", workspace.zstn("debug"));
        step.run(&mut test)?;
        counts::note(step)
    })
}

fn documentation(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut doc = cargo(workspace);
    doc.env("RUSTDOCFLAGS", "-Dwarnings").args([
        "doc",
        "--no-deps",
        // The documentation includes items that a feature enables.
        "--all-features",
        "--package",
        "zstn-core",
        "--package",
        "zstn",
        "--package",
        "zstn-store",
    ]);
    step.run(&mut doc)
}
