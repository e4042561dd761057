//! The published crates, packed and built as for crates.io.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::step::Step;
use crate::workspace::Workspace;

/// The published crates, in the order of their dependencies.
const CRATES: [&str; 7] = [
    "zstn-core",
    "zstn-net",
    "zstn-store",
    "zstn",
    "zstn-serve",
    "zstn-hub",
    "zstn-cli",
];

/// Packs the crates into `folder`. Cargo builds each from its archive, and uses the
/// archives of crates that are not on crates.io yet.
pub fn package(workspace: &Workspace, step: &mut Step, folder: &Path) -> Result<()> {
    // A separate target directory, because cargo would reuse an archive of an earlier
    // run.
    let target = workspace.target("publish");
    let packed = target.join("package");
    if packed.exists() {
        fs::remove_dir_all(&packed).context("the archives of the last run cannot be removed")?;
    }
    let mut publish = cargo(workspace);
    publish
        // The built viewer page counts as a change, because git ignores it.
        .args(["publish", "--dry-run", "--locked", "--allow-dirty"])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0");
    for name in CRATES {
        publish.args(["--package", name]);
    }
    step.run(&mut publish)?;
    for name in CRATES {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        // The location depends on the version of cargo.
        let places = [packed.join(&file), packed.join("tmp-crate").join(&file)];
        let Some(archive) = places.iter().find(|path| path.is_file()) else {
            bail!("cargo did not write {file}");
        };
        super::copy(archive, folder)?;
    }
    Ok(())
}
