//! The verb `decoders`, which compares zstd decoders, natively and in WebAssembly.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Decoders;
use crate::cargo::cargo;
use crate::node;
use crate::process;
use crate::rust_target::{self, WEB};
use crate::step::{Report, Step};
use crate::wasm;
use crate::workspace::Workspace;

const MANIFEST: &str = "tests/bench/decoders/Cargo.toml";

/// The features of the crate `tests/bench/decoders`; each is built as a module.
const MODULES: [&str; 3] = ["ours", "ruzstd", "structured"];

pub fn run(workspace: &Workspace, report: &Report, options: &Decoders) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    let modules = workspace.target("decoders/modules");
    for module in MODULES {
        report.step(&format!("module, {module}"), |step| {
            build(workspace, step, module, &modules)
        })?;
    }
    report.step("native decoders, release build", |step| {
        let arguments = ["build", "--release", "--package", "zstn-bench"];
        step.run(
            cargo(workspace)
                .args(arguments)
                .args(["--example", "decoders"]),
        )
    })?;
    let planes = workspace.target("decoders/planes");
    let suffix = std::env::consts::EXE_SUFFIX;
    let mut native = Command::new(workspace.target(&format!("release/examples/decoders{suffix}")));
    native.args(&options.model).arg("--write").arg(&planes);
    let mut web = Command::new("node");
    web.arg(workspace.path("tests/js/bench/decoders.mjs"))
        .args([&planes, &modules]);
    // The tables are the result, so they are printed to the terminal instead of a log.
    for table in [&mut native, &mut web] {
        println!();
        let shown = process::show(table);
        let status = table
            .status()
            .with_context(|| format!("`{shown}` could not be started"))?;
        if !status.success() {
            bail!("`{shown}` failed ({status})");
        }
    }
    Ok(())
}

fn build(workspace: &Workspace, step: &mut Step, feature: &str, into: &Path) -> Result<()> {
    let toolchain = rust_target::ready(workspace, step, &WEB)?;
    let mut build = toolchain.build(workspace, "wasm-decoders", &WEB, wasm::FLAGS);
    build
        .args(["--release", "--locked", "--manifest-path"])
        .arg(workspace.path(MANIFEST))
        .args(["--features", feature]);
    step.run(&mut build)?;
    let built = format!("wasm-decoders/{}/release/zstn_decoders.wasm", WEB.triple);
    wasm::bind(
        &workspace.target(&built),
        into,
        feature,
        wasm::Profile::Published,
    )?;
    let module = into.join(format!("{feature}_bg.wasm"));
    let size = fs::metadata(&module).context("wasm-bindgen wrote no module")?;
    step.note(format!("{} kB", size.len().div_ceil(1000)));
    Ok(())
}
