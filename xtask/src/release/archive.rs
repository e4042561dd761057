//! The archive of the program, with man pages, completions and licences.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::program::TARGET;
use crate::deps::NOTICES;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// The supported shells, and where each expects completions.
const COMPLETIONS: [(&str, &str); 4] = [
    ("bash", "share/bash-completion/completions/zstn"),
    ("zsh", "share/zsh/site-functions/_zstn"),
    ("fish", "share/fish/vendor_completions.d/zstn.fish"),
    ("powershell", "share/powershell/zstn.ps1"),
];

/// Writes the archive to `folder`. The same program always gives the same archive.
pub fn pack(workspace: &Workspace, step: &mut Step, program: &Path, folder: &Path) -> Result<()> {
    let name = format!("zstn-{}-{TARGET}", env!("CARGO_PKG_VERSION"));
    let parent = workspace.target("archive");
    let root = parent.join(&name);
    if root.exists() {
        fs::remove_dir_all(&root).context("the folder of the last archive cannot be removed")?;
    }
    let documents = root.join("share/doc/zstn");
    for made in [&root.join("bin"), &documents] {
        fs::create_dir_all(made)
            .with_context(|| format!("{} cannot be created", made.display()))?;
    }
    fs::copy(program, root.join("bin/zstn")).context("the program cannot be copied")?;
    for file in ["LICENSE", NOTICES, "README.md", "CHANGELOG.md"] {
        fs::copy(workspace.path(file), documents.join(file))
            .with_context(|| format!("{file} cannot be copied"))?;
    }
    let pages = root.join("share/man/man1");
    step.run(Command::new(program).arg("man").arg("-o").arg(&pages))?;
    for (shell, file) in COMPLETIONS {
        let path = root.join(file);
        let folder = path.parent().context("a file has a folder")?;
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let text = process::ask(Command::new(program).args(["completions", shell]))?;
        fs::write(&path, text + "\n")
            .with_context(|| format!("{} is not writable", path.display()))?;
    }
    let archive = folder.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--mode=u=rwX,go=rX", "--format=ustar"])
        .arg("--create")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(&parent)
        .arg(&name);
    step.run(&mut tar)?;
    step.run(
        Command::new("gzip")
            .args(["--no-name", "--best", "--force"])
            .arg(&archive),
    )?;
    let listed = process::ask(
        Command::new("tar")
            .arg("-tzf")
            .arg(archive.with_extension("tar.gz")),
    )?;
    step.note(format!(
        "{} files",
        listed.lines().filter(|line| !line.ends_with('/')).count()
    ));
    Ok(())
}
