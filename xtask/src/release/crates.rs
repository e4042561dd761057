//! The crates, packed and built as crates.io would receive them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::step::Step;
use crate::workspace::Workspace;

/// Those that are published, each after what it depends on.
const CRATES: [&str; 7] = [
    "zstn-core",
    "zstn-net",
    "zstn-store",
    "zstn",
    "zstn-serve",
    "zstn-hub",
    "zstn-cli",
];

/// Packs them into `folder`. Cargo builds each from its archive, and takes those
/// that are not on crates.io yet from the archives before it.
pub fn package(workspace: &Workspace, step: &mut Step, folder: &Path) -> Result<()> {
    // Its own: cargo would take an archive of an earlier run for current.
    let target = workspace.target("publish");
    let packed = target.join("package");
    if packed.exists() {
        fs::remove_dir_all(&packed).context("the archives of the last run are not removed")?;
    }
    let mut publish = cargo(workspace);
    publish
        // The built page counts as a change, since git ignores it.
        .args(["publish", "--dry-run", "--locked", "--allow-dirty"])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0");
    for name in CRATES {
        publish.args(["--package", name]);
    }
    step.run(&mut publish)?;
    for name in CRATES {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        // Where it is depends on the version of cargo.
        let places = [packed.join(&file), packed.join("tmp-crate").join(&file)];
        let Some(archive) = places.iter().find(|path| path.is_file()) else {
            bail!("cargo did not write {file}");
        };
        super::copy(archive, folder)?;
    }
    Ok(())
}
