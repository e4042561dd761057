//! Free space on the disk of the target directory. When the disk is full, linkers die
//! with a bus error instead of an error message.

use std::path::Path;

use anyhow::{Result, bail};

use crate::step::Step;
use crate::workspace::Workspace;

const GIGABYTE: u64 = 1_000_000_000;
/// Space that a clone takes after everything has been built, downloaded and tested
/// once.
const CLONE_BYTES: u64 = 12 * GIGABYTE;
/// Minimum space for a single build.
const LEAST_BYTES: u64 = GIGABYTE;

/// Fails if the disk is full, and warns if a fresh clone would fill it.
pub fn check(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let Some(free_bytes) = free_bytes(workspace.target("").as_path()) else {
        step.note("unknown on this system");
        return Ok(());
    };
    step.note(format!("{} free", gigabytes(free_bytes)));
    if let Some(warning) = judge(free_bytes)? {
        step.after(warning);
    }
    Ok(())
}

/// Returns a warning if space is low; an error if the disk is full.
fn judge(free_bytes: u64) -> Result<Option<String>> {
    let free = gigabytes(free_bytes);
    if free_bytes < LEAST_BYTES {
        bail!(
            "the disk of the target directory is full: {free} are free, and a build needs more \
             than {}. Remove what is not needed (`cargo clean` removes all builds), or set \
             CARGO_TARGET_DIR to a folder on a larger disk",
            gigabytes(LEAST_BYTES)
        );
    }
    if free_bytes < CLONE_BYTES {
        return Ok(Some(format!(
            "A fresh clone takes {} for everything, and only {free} are free. If a linker dies \
             with a bus error, the disk is full.",
            gigabytes(CLONE_BYTES)
        )));
    }
    Ok(None)
}

fn gigabytes(bytes: u64) -> String {
    let tenths = bytes / (GIGABYTE / 10);
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

/// Returns the free bytes on the disk of `folder`, or of its first ancestor that
/// exists.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.exists())?;
    let figures = rustix::fs::statvfs(existing).ok()?;
    Some(figures.f_bavail.saturating_mul(figures.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_says_what_to_do() {
        let error = judge(400_000_000).expect_err("full").to_string();
        assert!(error.contains("0.4 GB are free"), "{error}");
        assert!(error.contains("CARGO_TARGET_DIR"), "{error}");
    }

    #[test]
    fn little_space_is_a_warning_and_enough_is_nothing() {
        let warning = judge(4_250_000_000).expect("not full").expect("a warning");
        assert!(warning.contains("only 4.2 GB are free"), "{warning}");
        assert_eq!(judge(CLONE_BYTES).expect("not full"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_does_not_exist_yet_is_on_the_disk_of_its_parent() {
        let parent = std::env::temp_dir();
        let here = free_bytes(&parent.join("not/there/yet")).expect("a figure");
        assert!(here > 0 || free_bytes(&parent) == Some(0));
    }
}
