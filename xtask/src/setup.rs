//! The verb `setup`, which installs the tools of the other verbs and builds nothing.

use anyhow::Result;

use crate::git_lfs::GitLfs;
use crate::hub_job::HubJob;
use crate::object_stores::ObjectStores;
use crate::runtimes::Runtimes;
use crate::step::Report;
use crate::tier::Tier;
use crate::wheel::Python;
use crate::workspace::Workspace;
use crate::{capi, chromium, consumers, nginx, node, python, rust_target, valgrind};

pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    for target in [rust_target::WEB, rust_target::BARE] {
        report.step(&format!("Rust for {}", target.triple), |step| {
            let toolchain = rust_target::ready(workspace, step, &target)?;
            step.note(toolchain.describe());
            Ok(())
        })?;
    }
    report.step("Chromium", |step| chromium::ready(step).map(drop))?;
    Runtimes::ready(workspace, report)?;
    report.step("nginx", |step| nginx::ready(workspace, step).map(drop))?;
    report.step("ONNX Runtime and TensorFlow.js", |step| {
        consumers::ready(workspace, step).map(drop)
    })?;
    report.step("valgrind", |step| {
        valgrind::ready(workspace, step).map(drop)
    })?;
    report.step("Python packages", |step| {
        python::peers(workspace, step).map(drop)
    })?;
    Python::ready(workspace, report, Tier::All)?;
    report.step("Go, for the C library", |step| {
        capi::Tools::ready(workspace, step, Tier::All).map(drop)
    })?;
    report.step("object stores", |step| {
        ObjectStores::ready(workspace, step).map(drop)
    })?;
    report.step("git-lfs and Giftless", |step| {
        GitLfs::ready(workspace, step).map(drop)
    })?;
    report.step("Ray", |step| HubJob::ready(workspace, step).map(drop))
}
