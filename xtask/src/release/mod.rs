//! The verb `release`, which builds all published artifacts into one folder.
//! `.github/workflows/release.yml` publishes them.

mod archive;
mod crates;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::args::Release;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{deps, node, wasm, wheel};
pub use program::build as static_program;

/// The folder of the artifacts.
const FOLDER: &str = "release-dry-run";
const SUMS: &str = "SHA256SUMS";

/// Builds and lists all artifacts, without publishing any.
pub fn run(workspace: &Workspace, report: &Report, options: &Release) -> Result<()> {
    if options.only_program {
        return report.step("static program", |step| {
            static_program(workspace, step).map(drop)
        });
    }
    if !options.dry_run {
        bail!(
            "`cargo xtask release` publishes nothing: a tag does, by .github/workflows/release.yml. \
             `cargo xtask release --dry-run` builds what would be published"
        );
    }
    let folder = workspace.target(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("the artifacts of the last run cannot be removed")?;
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    deps::check(workspace, report, false)?;
    // The command line's crate contains the viewer page.
    wasm::build(workspace, report)?;
    report.step("page", |step| wasm::page(workspace, step))?;
    report.step("crates (cargo publish --dry-run)", |step| {
        crates::package(workspace, step, &folder)
    })?;
    report.step("npm package (npm publish --dry-run)", |step| {
        // The workflow publishes this tarball unchanged.
        let tarball = npm_tarball(step, workspace.root(), &folder)?;
        let mut publish = node::npm();
        publish
            .args(["publish", "--dry-run", "--access", "public"])
            .arg(&tarball)
            .current_dir(workspace.root());
        step.run(&mut publish)
    })?;
    report.step("wheels", |step| {
        let wheels = wheel::release(workspace, step)?;
        wheels.iter().try_for_each(|wheel| copy(wheel, &folder))
    })?;
    let program = report.step("static program", |step| static_program(workspace, step))?;
    report.step("archive of the program", |step| {
        archive::pack(workspace, step, &program, &folder)
    })?;
    report.step("SBOMs", |step| {
        deps::sboms(workspace, step, &folder, program::TARGET)
    })?;
    report.step("SHA256SUMS", |step| sums(step, &folder))
}

/// Packs the npm package of the repository `root` into `folder`, and returns the path
/// of the tarball.
pub fn npm_tarball(step: &mut Step, root: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let mut pack = node::npm();
    pack.args(["pack", "--workspace", "zstn", "--pack-destination"])
        .arg(folder)
        .current_dir(root);
    step.run(&mut pack)?;
    let tarball = folder.join(format!("zstn-{}.tgz", env!("CARGO_PKG_VERSION")));
    if !tarball.is_file() {
        bail!("npm did not write {}", tarball.display());
    }
    Ok(tarball)
}

/// Formats `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn copy(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    fs::copy(file, folder.join(name))
        .with_context(|| format!("{} cannot be copied", file.display()))?;
    Ok(())
}

/// Writes the digests of all artifacts, and prints them as a table.
fn sums(step: &mut Step, folder: &Path) -> Result<()> {
    let mut artifacts = Vec::new();
    for entry in fs::read_dir(folder).context("the artifacts cannot be listed")? {
        let path = entry.context("the artifacts cannot be listed")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(&path).with_context(|| format!("{} is unreadable", path.display()))?;
        artifacts.push((name.into_owned(), bytes.len(), hex(&Sha256::digest(&bytes))));
    }
    artifacts.sort();
    let lines: String = artifacts
        .iter()
        .map(|(name, _, digest)| format!("{digest}  {name}\n"))
        .collect();
    fs::write(folder.join(SUMS), lines).context("the digests cannot be written")?;
    for line in table(&artifacts) {
        step.after(line);
    }
    step.note(format!("{} artifacts", artifacts.len()));
    Ok(())
}

/// Returns the lines of a table, with names aligned left and sizes aligned right.
fn table(artifacts: &[(String, usize, String)]) -> Vec<String> {
    let name_width = artifacts.iter().map(|row| row.0.chars().count()).max();
    let name_width = name_width.unwrap_or(0).max("artifact".len());
    let size_width = artifacts.iter().map(|row| row.1.to_string().len()).max();
    let size_width = size_width.unwrap_or(0).max("bytes".len());
    let head = format!(
        "{:name_width$}  {:>size_width$}  sha256",
        "artifact", "bytes"
    );
    let rows = artifacts
        .iter()
        .map(|(name, size, digest)| format!("{name:name_width$}  {size:>size_width$}  {digest}"));
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |name: &str, size| (name.to_owned(), size, "ab".to_owned());
        let lines = table(&[row("a", 5), row("a-longer-name.tar.gz", 1_234_567)]);
        let ends: Vec<_> = lines.iter().map(|line| line.rfind("  ")).collect();
        assert_eq!(ends[0], ends[1], "{lines:?}");
        assert_eq!(ends[1], ends[2], "{lines:?}");
    }

    #[test]
    fn digests_are_written_as_sha256sum_reads_them() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
    }
}
