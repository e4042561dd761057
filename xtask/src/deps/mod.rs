//! The verb `deps`: the project's dependencies, and the ones that are shipped.

mod artifact;
mod cargo_deny;
mod licence;
mod locks;
mod notices;
mod package;
mod sbom;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::args::Deps;
use crate::rust_target::active_rustc;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{node, process};
use artifact::ALL;
use package::Shipped;

/// Folders of the published crates, whose archives also contain a licence.
const CRATES: [&str; 4] = ["core", "native", "native/net", "native/store"];

/// Name of the files that contain the licences of shipped packages.
pub const NOTICES: &str = "THIRD-PARTY-LICENSES.txt";

/// Checks everything, or writes the notices with `--write`.
pub fn run(workspace: &Workspace, report: &Report, options: &Deps) -> Result<()> {
    report.step("npm packages", |step| node::install(workspace, step))?;
    check(workspace, report, options.write)?;
    if let Some(folder) = &options.sbom {
        report.step("SBOMs", |step| {
            sboms(workspace, step, folder, &host(workspace)?)
        })?;
    }
    report.step("advisories for npm packages", |step| {
        locks::audit(workspace, step)
    })
}

/// Runs all checks that need no database of advisories.
pub fn check(workspace: &Workspace, report: &Report, write: bool) -> Result<()> {
    deny(workspace, report)?;
    notices(workspace, report, write)
}

/// Checks licences and origins of all crates.
pub fn deny(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("licences and origins of crates", |step| {
        cargo_deny::check(workspace, step)
    })
}

/// Checks the lock files, and compares or writes the licence texts of shipped packages.
pub fn notices(workspace: &Workspace, report: &Report, write: bool) -> Result<()> {
    report.step("lock files", |step| locks::check(workspace, step))?;
    report.step("licences of what is shipped", |step| {
        compare(workspace, step, write)
    })
}

/// Returns the default target of the active compiler.
pub fn host(workspace: &Workspace) -> Result<String> {
    let mut rustc = active_rustc(workspace);
    let said = process::ask(rustc.arg("-vV"))?;
    let mut lines = said.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

/// Compares the committed notices with the packages that are shipped.
fn compare(workspace: &Workspace, step: &mut Step, write: bool) -> Result<()> {
    let metadata = package::Metadata::read(workspace)?;
    let mut counts = Vec::new();
    for folder in artifact::folders() {
        let artifacts = ALL.iter().filter(|artifact| artifact.folder == folder);
        let shipped = Shipped::of_all(workspace, &metadata, artifacts)?;
        let text = notices::text(&shipped)?;
        let path = workspace.path(folder).join(NOTICES);
        if write {
            fs::write(&path, &text)
                .with_context(|| format!("{} is not writable", path.display()))?;
        } else if fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
            bail!(
                "{} is not what is shipped now; `cargo xtask deps --write` writes it",
                workspace.show(&path)
            );
        }
        counts.push(shipped.len().to_string());
    }
    let licence = fs::read(workspace.path("LICENSE")).context("LICENSE cannot be read")?;
    for folder in artifact::folders().into_iter().chain(CRATES) {
        let path = workspace.path(folder).join("LICENSE");
        if fs::read(&path).ok().as_ref() != Some(&licence) {
            bail!("{} is not a copy of LICENSE", workspace.show(&path));
        }
    }
    step.note(format!("{} packages", counts.join(", ")));
    Ok(())
}

/// Writes an SBOM of each artifact to `folder`, for `target` or for the only target of
/// the artifact.
pub fn sboms(workspace: &Workspace, step: &mut Step, folder: &Path, target: &str) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let metadata = package::Metadata::read(workspace)?;
    for artifact in ALL {
        let target = match artifact.targets {
            [only] => only,
            _ => target,
        };
        let shipped = Shipped::of(workspace, &metadata, artifact, &[target])?;
        let path = folder.join(artifact.sbom);
        fs::write(&path, sbom::json(artifact, &shipped)?)
            .with_context(|| format!("{} is not writable", path.display()))?;
    }
    step.note(workspace.show(folder));
    Ok(())
}
