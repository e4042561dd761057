//! Installs Debian packages if the user has the privilege to do so without
//! confirmation.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::step::Step;

/// Returns the command that installs `packages` manually.
pub fn by_hand(packages: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Serialises calls, since apt-get refuses to run twice at the same time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Installs `packages`, after printing the reason `why`. No installed package is
/// removed.
pub fn install(step: &mut Step, packages: &[&str], why: &str) -> Result<()> {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if process::find("apt-get").is_none() {
        bail!("this machine has no apt-get");
    }
    let privilege = privilege()?;
    step.say(&format!(
        "Installing {} with apt-get: {why}.",
        packages.join(", ")
    ));
    if step.run(&mut install_command(privilege, packages)).is_ok() {
        return Ok(());
    }
    // Package lists are often empty or outdated, especially in containers.
    update_locked(step)?;
    step.run(&mut install_command(privilege, packages))
}

/// Updates the package lists.
pub fn update(step: &mut Step) -> Result<()> {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    update_locked(step)
}

fn update_locked(step: &mut Step) -> Result<()> {
    let mut update = apt_get(privilege()?);
    update.args(["update", "-qq"]);
    step.run(&mut update)
}

/// Returns whether this machine has the programs that [`unpack`] uses.
pub fn can_unpack() -> bool {
    process::find("apt-get").is_some() && process::find("dpkg").is_some()
}

/// Downloads `package`, which needs no privilege, and unpacks it into `folder` without
/// installing it.
pub fn unpack(step: &mut Step, package: &str, folder: &Path) -> Result<()> {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let mut download = Command::new("apt-get");
    download.args(["download", package]).current_dir(folder);
    if step.run(&mut download).is_err() {
        // Package lists are often empty or outdated, especially in containers.
        update_locked(step)?;
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

#[derive(Clone, Copy)]
enum Privilege {
    Root,
    Sudo,
}

fn privilege() -> Result<Privilege> {
    let user = process::ask(Command::new("id").arg("-u")).context("the user is unknown")?;
    if user == "0" {
        return Ok(Privilege::Root);
    }
    if process::ask(Command::new("sudo").args(["-n", "true"])).is_ok() {
        return Ok(Privilege::Sudo);
    }
    bail!("installing packages needs root, and sudo would ask for a password")
}

fn apt_get(privilege: Privilege) -> Command {
    match privilege {
        Privilege::Root => {
            let mut command = Command::new("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive");
            command
        }
        // sudo drops the environment, so the variable is set after it.
        Privilege::Sudo => {
            let mut command = Command::new("sudo");
            command.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            command
        }
    }
}

fn install_command(privilege: Privilege, packages: &[&str]) -> Command {
    let mut command = apt_get(privilege);
    command
        .args(["install", "--yes", "-qq"])
        // Some of these packages replace others, which the user may want to keep.
        .args(["--no-remove", "--no-install-recommends"])
        .args(["-o", "DPkg::Lock::Timeout=120"])
        .args(packages);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_never_removes_packages() {
        let shown = process::show(&install_command(Privilege::Sudo, &["a", "b"]));
        assert!(shown.contains("--no-remove"));
        assert!(shown.ends_with("a b"));
    }
}
