//! Checks of the Rust code: format, tests, and builds with other features.

use anyhow::Result;

use crate::cargo::cargo;
use crate::step::{Report, Step};
use crate::tier::Tier;
use crate::workspace::Workspace;
use crate::{counts, no_std, programs};

const BARE_CORE: [&str; 3] = ["--package", "zstn-core", "--no-default-features"];

/// Checks the format of all crates.
pub fn format(workspace: &Workspace, report: &Report) {
    report.check("format", |step| {
        step.run(cargo(workspace).args(["fmt", "--all", "--check"]))
    });
}

/// Runs the tests of all crates, which have already been built.
pub fn tests(workspace: &Workspace, step: &mut Step, tier: Tier) -> Result<()> {
    let mut results = Vec::new();
    for packages in programs::SELECTIONS {
        let mut test = programs::cargo_dev(workspace);
        test.arg("test")
            .args(packages)
            .arg("--no-fail-fast")
            .env("ZSTN_BIN", workspace.zstn("debug"));
        results.push(step.run(tier.apply(&mut test)));
    }
    results.into_iter().collect::<Result<()>>()?;
    counts::note(step)
}

/// Lints, tests and builds the core and the library with other features than the
/// workspace's.
pub fn features(workspace: &Workspace, report: &Report) {
    report.check("clippy, core without features", |step| {
        let mut clippy = cargo(workspace);
        clippy.arg("clippy").args(BARE_CORE).arg("--all-targets");
        step.run(clippy.args(["--", "-D", "warnings"]))
    });
    report.check("cargo test, core without features", |step| {
        step.run(cargo(workspace).arg("test").args(BARE_CORE).arg("--lib"))
    });
    for (title, features) in [
        ("clippy, zstn without features", ""),
        ("clippy, zstn with async", "async"),
    ] {
        report.check(title, |step| {
            let mut clippy = cargo(workspace);
            clippy.args([
                "clippy",
                "--package",
                "zstn",
                "--lib",
                "--features",
                features,
            ]);
            step.run(clippy.args(["--", "-D", "warnings"]))
        });
    }
    for (title, features) in [
        ("core without std", &["pure-hashes"][..]),
        (
            "core without std, everything that can",
            &["pure-encoder", "brotli", "pure-hashes"],
        ),
    ] {
        report.check(title, |step| no_std::build_core(workspace, step, features));
    }
}

/// Builds the documentation of the published crates. Warnings are errors.
pub fn documentation(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut doc = cargo(workspace);
    doc.env("RUSTDOCFLAGS", "-Dwarnings").args([
        "doc",
        "--no-deps",
        // Some documented items require a feature.
        "--all-features",
        "--package",
        "zstn-core",
        "--package",
        "zstn",
        "--package",
        "zstn-store",
        "--package",
        "zstn-net",
        "--package",
        "zstn-serve",
        "--package",
        "zstn-hub",
    ]);
    step.run(&mut doc)
}
