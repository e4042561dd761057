//! From the Rust core to the npm package: module, glue, TypeScript.
//!
//! The npm package's own build must leave `wasm/dist/core` alone: it is
//! written here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use wasm_bindgen_cli_support::Bindgen;

use crate::fresh::Stamp;
use crate::node;
use crate::rust_target::{self, WEB};
use crate::step::{Report, Step};
use crate::workspace::Workspace;

/// Both are in every browser since 2023 and in every Node this project supports.
const FLAGS: &str = "-C target-feature=+simd128,+bulk-memory";
const NAME: &str = "zstn_wasm";

/// The verb `wasm`.
pub fn run(workspace: &Workspace, report: &mut Report) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    build(workspace, report)
}

/// Everything below `wasm/dist`.
pub fn build(workspace: &Workspace, report: &mut Report) -> Result<()> {
    report.step("core as WebAssembly", |step| module(workspace, step))?;
    report.step("npm package", |step| package(workspace, step))
}

fn module(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let toolchain = rust_target::ready(workspace, step, &WEB)?;
    let mut build = toolchain.build(workspace, "wasm-st", &WEB, FLAGS);
    build.args(["--profile", "wasm", "--package", "zstn-wasm"]);
    step.run(&mut build)?;
    let built = workspace.target(&format!("wasm-st/{}/wasm/{NAME}.wasm", WEB.triple));
    let glue = workspace.path("wasm/dist/core");
    let stamp = Stamp::new(
        workspace,
        "wasm-glue",
        &[
            built.clone(),
            // The version of wasm-bindgen, and the options below.
            workspace.path("Cargo.lock"),
            workspace.path("xtask/src/wasm.rs"),
        ],
        std::slice::from_ref(&glue),
    )?;
    if !stamp.is_fresh() {
        bind(&built, &glue)?;
        stamp.save()?;
    }
    let size = fs::metadata(glue.join(format!("{NAME}_bg.wasm")))
        .context("wasm-bindgen wrote no module")?
        .len();
    step.note(format!(
        "{} KB, {}",
        size.div_ceil(1000),
        toolchain.describe()
    ));
    Ok(())
}

/// `--target web` is the one output that serves browsers, bundlers and Node.
fn bind(module: &Path, into: &Path) -> Result<()> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("{} is in the way", into.display()))?;
    }
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name(NAME)
        .typescript(true)
        // For debuggers only, and a quarter of the file.
        .remove_name_section(true)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(into))
        .map_err(|error| anyhow!("{error:#}"))
        .with_context(|| format!("wasm-bindgen refused {}", module.display()))
}

fn package(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let inputs = [
        "wasm/ts",
        "wasm/package.json",
        "wasm/tsconfig.json",
        "wasm/dist/core",
    ];
    node::build(
        workspace,
        step,
        "zstn",
        &paths(workspace, &inputs),
        &workspace.path("wasm/dist"),
    )
}

/// The page of the demonstration, which uses the npm package like anybody else.
pub fn page(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let inputs = ["web-demo", "wasm/dist", "wasm/package.json"];
    node::build(
        workspace,
        step,
        "zstn-web-demo",
        &paths(workspace, &inputs),
        &workspace.path("web-demo/dist"),
    )
}

fn paths(workspace: &Workspace, relative: &[&str]) -> Vec<PathBuf> {
    relative.iter().map(|path| workspace.path(path)).collect()
}
