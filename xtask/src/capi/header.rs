//! The header, which is generated and committed.

use std::fs;

use anyhow::{Context, Result, anyhow, bail};

use super::CRATE;
use crate::step::Step;
use crate::workspace::Workspace;

const HEADER: &str = "include/zstn.h";

/// Compares the committed header with what its sources say now; with `write`,
/// replaces it.
pub fn ready(workspace: &Workspace, step: &mut Step, write: bool) -> Result<()> {
    let path = workspace.path(CRATE).join(HEADER);
    let made = generate(workspace)?;
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == made {
        step.note("unchanged");
        return Ok(());
    }
    if !write {
        bail!(
            "{} differs from its sources; run `cargo xtask capi --write` and commit it",
            workspace.show(&path)
        );
    }
    fs::write(&path, made).with_context(|| format!("{} is not writable", path.display()))?;
    step.note("written");
    Ok(())
}

fn generate(workspace: &Workspace) -> Result<String> {
    let folder = workspace.path(CRATE);
    let file = folder.join("cbindgen.toml");
    let mut config = cbindgen::Config::from_file(&file).map_err(|error| anyhow!(error))?;
    if let Some(text) = &mut config.after_includes {
        *text = text.replace("@VERSION@", &version_number()?);
    }
    let bindings = cbindgen::Builder::new()
        .with_crate(&folder)
        .with_config(config)
        .generate()
        .context("the header cannot be generated")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8(text)?)
}

/// Returns the version of the workspace as `0x00MMmmpp`.
fn version_number() -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut number = 0u32;
    for part in version.split('.') {
        number = number << 8 | u32::from(part.parse::<u8>()?);
    }
    Ok(format!("0x{number:08x}"))
}
