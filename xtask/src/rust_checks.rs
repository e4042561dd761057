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

/// Runs all of them; an error if the programs cannot be built.
pub fn all(workspace: &Workspace, report: &mut Report) -> Result<()> {
    lints(workspace, report);
    report.check("clippy, core without features", |step| {
        step.run(
            cargo(workspace)
                .arg("clippy")
                .args(BARE_CORE)
                .arg("--all-targets")
                .args(DENY),
        )
    });
    report.check("documentation", |step| documentation(workspace, step));
    for (title, features) in [
        ("core without std", &["pure-hashes"][..]),
        (
            "core without std, everything that can",
            &["pure-encoder", "brotli", "pure-hashes"],
        ),
    ] {
        report.check(title, |step| no_std::build_core(workspace, step, features));
    }
    report.check("cargo test, core without features", |step| {
        step.run(cargo(workspace).arg("test").args(BARE_CORE).arg("--lib"))
    });
    tests(workspace, report, &[])
}

/// Checks the format and runs clippy on all crates.
pub fn lints(workspace: &Workspace, report: &mut Report) {
    report.check("format", |step| {
        step.run(cargo(workspace).args(["fmt", "--all", "--check"]))
    });
    report.check("clippy", |step| {
        step.run(
            cargo(workspace)
                .args(["clippy", "--workspace", "--all-targets"])
                .args(DENY),
        )
    });
}

/// Builds all programs with the dev profile and tests all crates, but for tests
/// whose names contain one of `left_out`; an error if the programs cannot be built.
pub fn tests(workspace: &Workspace, report: &mut Report, left_out: &[&str]) -> Result<()> {
    report.step("programs and tests, dev build", |step| {
        programs::build_all(workspace, step)
    })?;
    report.check("cargo test", |step| {
        let mut test = cargo(workspace);
        test.args(["test", "--workspace", "--no-fail-fast", "--"])
            .args(left_out.iter().flat_map(|name| ["--skip", *name]))
            .env("ZSTN_BIN", workspace.zstn("debug"));
        step.run(&mut test)?;
        counts::note(step)
    });
    Ok(())
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
