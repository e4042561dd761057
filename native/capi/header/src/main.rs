//! Prints `native/capi/include/zstn.h`, generated from the sources of the C library.
//! `cargo xtask capi --write` runs this program and writes the file.
//!
//! It is a separate program because cbindgen takes longer to compile than everything
//! else in xtask that `cargo xtask demo` needs.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

fn main() -> Result<()> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = library.join("cbindgen.toml");
    let mut config = cbindgen::Config::from_file(&file).map_err(|error| anyhow!(error))?;
    if let Some(text) = &mut config.after_includes {
        *text = text.replace("@VERSION@", &version_number()?);
    }
    let bindings = cbindgen::Builder::new()
        .with_crate(&library)
        .with_config(config)
        .generate()
        .context("the header cannot be generated")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    std::io::stdout().write_all(&text)?;
    Ok(())
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
