//! Files in place of WebAssembly modules that are not built yet, so that the
//! rest of the npm package and the viewer can be built without them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::node::npm;
use crate::step::Step;
use crate::wasm::Module;
use crate::workspace::Workspace;

/// The glue's only export is the function that the package calls to make an
/// instance.
const GLUE: &str = "\
export function create() {
  throw new Error(\"this module is not built yet: wait until `cargo xtask demo` says so, or run `cargo xtask wasm`\");
}
";

/// Returns whether `module` has been built at some time.
pub fn is_built(workspace: &Workspace, module: &Module) -> bool {
    // The module of a placeholder is an empty file.
    fs::metadata(binary(workspace, module)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Writes the placeholder of `module`.
pub fn write(workspace: &Workspace, module: &Module) -> Result<()> {
    let glue = workspace.path(&format!("wasm/dist/core/{}.js", module.name));
    fs::write(&glue, GLUE)
        .and_then(|()| fs::write(binary(workspace, module), ""))
        .with_context(|| format!("{} is not writable", glue.display()))
}

fn binary(workspace: &Workspace, module: &Module) -> PathBuf {
    workspace.path(&format!("wasm/dist/core/{}_bg.wasm", module.name))
}

/// Compiles the npm package without checking types, which would take longer
/// than the rest and is done when all modules are built.
pub fn package(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut tsc = npm();
    tsc.args(["exec", "--offline", "--", "tsc", "--noCheck", "--project"])
        .arg(workspace.path("wasm/tsconfig.json"));
    step.run(&mut tsc)
}

/// Builds the viewer with such a package, and without its sample, which is
/// packed by the package.
pub fn page(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let mut vite = npm();
    vite.args([
        "exec",
        "--offline",
        "--",
        "vite",
        "build",
        "--mode",
        "reading",
    ])
    .current_dir(workspace.path("web-demo"));
    step.run(&mut vite)
}
