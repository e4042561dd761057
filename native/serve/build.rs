//! Embeds the built viewer in release builds: `viewer/page.archive`, which building
//! the page writes. Debug builds read that file when `zstn view` starts, so that a
//! change of the page does not compile the crate again.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(has_viewer)");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("viewer");
    let archive = folder.join("page.archive");
    if env::var("PROFILE")? == "debug" {
        // Any path replaces the default, which is every file of the package.
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rustc-env=ZSTN_PAGE_ARCHIVE={}", archive.display());
        return Ok(());
    }
    // The folder: cargo treats a missing file as changed each time.
    println!("cargo::rerun-if-changed=viewer");
    if env::var_os("CARGO_FEATURE_VIEW").is_some() && archive.is_file() {
        // A copy, since the page can be built again while this crate is compiled.
        fs::copy(
            &archive,
            Path::new(&env::var("OUT_DIR")?).join("viewer.archive"),
        )?;
        println!("cargo::rustc-cfg=has_viewer");
    }
    Ok(())
}
