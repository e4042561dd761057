//! The checks of `cargo xtask test --quick`: what a change breaks most often, in
//! a few minutes. Needs Rust and Node, and installs nothing else.

use anyhow::Result;

use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{counts, disk, node, node_tests, rust_checks, wasm};

/// Tests of crates that go through tables of faults: minutes for what few changes
/// break.
const LEFT_OUT: [&str; 6] = [
    "every_fault_has_its_outcome",
    "cells::",
    "signals::signals",
    "servers::servers",
    "large::large_files",
    "together::",
];

/// Runs them.
pub fn run(workspace: &Workspace, report: &mut Report) -> Result<()> {
    report.step("free disk space", |step| disk::check(workspace, step))?;
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    rust_checks::lints(workspace, report);
    // The command line includes the page, which includes the modules.
    wasm::build(workspace, report)?;
    report.step("page", |step| wasm::page(workspace, step))?;
    rust_checks::tests(workspace, report, &LEFT_OUT)?;
    report.check("TypeScript types", node_tests::types);
    report.check("tests in Node", |step| node(workspace, step));
    report.kept()
}

fn node(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut npm = node_tests::npm(workspace, "test:node");
    npm.env("ZSTN_SKIP_BROWSER", "1").env_remove("CHROMIUM");
    step.run(npm.env("ZSTN_QUICK", "1"))?;
    counts::note(step)
}
