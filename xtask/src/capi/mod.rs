//! The C library: its header, what it is installed as, and its tests.

mod compiler;
mod header;
mod install;
mod library;
mod tests;

use std::path::PathBuf;

use anyhow::Result;

use crate::args::Capi;
use crate::step::Report;
use crate::workspace::Workspace;
use install::Installed;
use library::Profile;
pub use tests::Tools;

/// The folder of the crate.
const CRATE: &str = "native/capi";

/// The verb `capi`: builds the library and installs it, or runs its tests.
pub fn run(workspace: &Workspace, report: &mut Report, options: &Capi) -> Result<()> {
    report.step("header of the C library", |step| {
        header::ready(workspace, step, options.write)
    })?;
    if options.test {
        let tools = report.step("tools of the C library's tests", |step| {
            Tools::ready(workspace, step)
        })?;
        return test(workspace, report, &tools);
    }
    let profile = match options.dev {
        true => Profile::Dev,
        false => Profile::Release,
    };
    let library = report.step("C library", |step| {
        library::build(workspace, step, profile, options.write)
    })?;
    report.step("installation of the C library", |step| {
        let prefix = options.prefix.clone();
        let prefix = prefix.unwrap_or_else(|| workspace.target("capi"));
        let installed = Installed::new(workspace, &library, &prefix)?;
        step.note(workspace.show(installed.prefix()));
        Ok(())
    })
}

/// Builds the library with its dev profile and installs it below the target
/// directory. Returns where.
pub fn install_dev(workspace: &Workspace, report: &mut Report) -> Result<PathBuf> {
    report.step("C library, dev build", |step| {
        let library = library::build(workspace, step, Profile::Dev, false)?;
        let prefix = workspace.target("capi-test/prefix");
        let installed = Installed::new(workspace, &library, &prefix)?;
        Ok(installed.prefix().into())
    })
}

/// Runs everything that checks the library, with its dev profile: about two
/// minutes on two processors the first time, 80 seconds of work after that.
pub fn test(workspace: &Workspace, report: &mut Report, tools: &Tools) -> Result<()> {
    report.step("C library", |step| {
        header::ready(workspace, step, false)?;
        let library = library::build(workspace, step, Profile::Dev, false)?;
        let prefix = workspace.target("capi-test/prefix");
        let installed = Installed::new(workspace, &library, &prefix)?;
        tests::run(workspace, step, tools, &installed)
    })
}
