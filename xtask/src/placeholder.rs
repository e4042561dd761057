//! Placeholder files for WebAssembly modules that have not been built, so that the rest
//! of the npm package and the viewer can be built without them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::node::npm;
use crate::step::Step;
use crate::wasm::Module;
use crate::workspace::Workspace;

const GLUE: &str = "\
export const create = () => {
  throw new Error(\"this module is not built yet: wait until `cargo xtask demo` says so, or run `cargo xtask wasm`\");
};
";

/// The smallest valid module; the error about the missing module comes from [`GLUE`].
const BINARY: &[u8] = b"\0asm\x01\0\0\0";

/// Returns whether the real `module` has been built.
pub fn is_built(workspace: &Workspace, module: &Module) -> bool {
    fs::read(binary(workspace, module)).is_ok_and(|bytes| bytes != BINARY)
}

/// Writes the placeholder for `module`.
pub fn write(workspace: &Workspace, module: &Module) -> Result<()> {
    let glue = workspace.path(&format!("wasm/dist/core/{}.js", module.name));
    fs::write(&glue, GLUE)
        .and_then(|()| fs::write(binary(workspace, module), BINARY))
        .with_context(|| format!("{} is not writable", glue.display()))
}

fn binary(workspace: &Workspace, module: &Module) -> PathBuf {
    workspace.path(&format!("wasm/dist/core/{}_bg.wasm", module.name))
}

/// Builds the viewer without its sample model, because packing that needs the coder
/// module.
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
