//! nginx, a real web server for the tests. Its package is only unpacked, because
//! installing it would start a service.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// Packages that may contain the program, depending on the release of the distribution.
const PACKAGES: [&str; 2] = ["nginx", "nginx-core"];

/// Returns the path of nginx, or `None` if neither the program nor a package is
/// available; its tests are then skipped.
pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<PathBuf>> {
    let folder = workspace.cache("nginx");
    let unpacked = folder.join("usr/sbin/nginx");
    let installed = process::find("nginx").unwrap_or_else(|| "/usr/sbin/nginx".into());
    let mut found = [installed, unpacked.clone()]
        .into_iter()
        .find(|program| runs(program));
    if found.is_none() && apt::can_unpack() {
        let done = PACKAGES
            .iter()
            .any(|package| apt::unpack(step, package, &folder).is_ok() && runs(&unpacked));
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
