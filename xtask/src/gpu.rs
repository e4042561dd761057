//! The kernels for GPUs, compiled to PTX, which the crate `zstn-gpu` contains.

use sha2::{Digest as _, Sha256};

use crate::prelude::*;
use crate::python;

const CRATE: &str = "native/gpu";
const WRITE: &str = "cargo xtask gpu --write";

#[derive(clap::Args)]
pub struct Options {
    /// Write native/gpu/kernels.ptx
    #[arg(long)]
    write: bool,
}

/// Runs the verb `gpu`, which compiles the kernels and compares the result with the
/// committed file.
pub fn run(options: &Options) -> Result<()> {
    let compiler = python::NVRTC.ready()?;
    step("kernels for GPUs", |_| {
        let folder = path(CRATE);
        let ptx = ask(compiler.python().arg(folder.join("compile.py")))?;
        let text = format!("// SHA-256 of the sources: {}\n{ptx}\n", of_sources()?);
        paths::check_generated(&folder.join("kernels.ptx"), &text, options.write, WRITE)
    })
}

/// Returns the SHA-256 of all files of kernels, concatenated in the order of their names.
fn of_sources() -> Result<String> {
    let mut sha256 = Sha256::new();
    for file in paths::entries(&path(CRATE).join("kernels"))? {
        sha256.update(fs::read(file)?);
    }
    let bytes = sha256.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
