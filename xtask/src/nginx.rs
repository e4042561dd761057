//! A real web server for the tests. Installing its package would start a
//! service, so it is only unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// Which of them holds the program differs from release to release.
const PACKAGES: [&str; 2] = ["nginx", "nginx-core"];

/// An nginx to test with; `None` where there is none and no package of it, so
/// that its tests are left out.
pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<PathBuf>> {
    let folder = workspace.cache("nginx");
    let unpacked = folder.join("usr/sbin/nginx");
    let installed = process::find("nginx").unwrap_or_else(|| "/usr/sbin/nginx".into());
    let mut found = [installed, unpacked.clone()]
        .into_iter()
        .find(|program| runs(program));
    if found.is_none() && process::find("apt-get").is_some() && process::find("dpkg").is_some() {
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let done = PACKAGES
            .iter()
            .any(|package| unpack(step, package, &folder).is_ok() && runs(&unpacked));
        found = done.then_some(unpacked);
    }
    step.note(match &found {
        Some(program) => workspace.show(program),
        None => "none: its tests are left out".into(),
    });
    Ok(found)
}

fn runs(program: &Path) -> bool {
    program.is_file() && process::ask(Command::new(program).arg("-v")).is_ok()
}

/// Downloads `package`, which needs no privilege, and unpacks it to `folder`.
fn unpack(step: &mut Step, package: &str, folder: &Path) -> Result<()> {
    let mut download = Command::new("apt-get");
    download.args(["download", package]).current_dir(folder);
    if step.run(&mut download).is_err() {
        // Package lists are often empty or old, above all in containers.
        apt::update(step)?;
        step.run(&mut download)?;
    }
    let files =
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for file in files {
        let path = file
            .with_context(|| format!("{} cannot be read", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            step.run(Command::new("dpkg").arg("-x").arg(&path).arg(folder))?;
            fs::remove_file(&path)
                .with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    Ok(())
}
