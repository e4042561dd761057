//! Includes the built viewer, if there is one: `viewer/page.archive`, which building
//! the page writes.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(has_viewer)");
    // The folder: a file that is not there would always count as changed.
    println!("cargo::rerun-if-changed=viewer");
    let archive = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("viewer/page.archive");
    if env::var_os("CARGO_FEATURE_VIEW").is_some() && archive.is_file() {
        // A copy, since the page can be built anew while this is compiled.
        fs::copy(
            &archive,
            Path::new(&env::var("OUT_DIR")?).join("viewer.archive"),
        )?;
        println!("cargo::rustc-cfg=has_viewer");
    }
    Ok(())
}
