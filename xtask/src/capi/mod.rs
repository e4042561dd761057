//! The C library: its header, its installation and its tests.

mod compiler;
mod header;
mod install;
mod library;
mod tests;

use anyhow::Result;

use crate::args::Capi;
use crate::step::Report;
use crate::tier::Tier;
use crate::workspace::Workspace;
pub use install::Installed;
use library::Profile;
pub use tests::Tools;

/// Where the library is installed for the tests.
const TEST_PREFIX: &str = "capi-test/prefix";

/// The folder of the crate.
const CRATE: &str = "native/capi";

/// Runs the verb `capi`, which builds and installs the library, or runs its tests.
pub fn run(workspace: &Workspace, report: &Report, options: &Capi) -> Result<()> {
    report.step("header of the C library", |step| {
        header::ready(workspace, step, options.write)
    })?;
    if options.test {
        let tools = report.step("tools of the C library's tests", |step| {
            Tools::ready(workspace, step, Tier::All)
        })?;
        let installed = install_dev(workspace, report)?;
        return test(workspace, report, &tools, &installed);
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

/// Builds the library alone, with its dev profile and its own features, and installs it
/// below the target directory.
pub fn install_dev(workspace: &Workspace, report: &Report) -> Result<Installed> {
    report.step("C library, dev build", |step| {
        let library = library::build(workspace, step, Profile::Dev, false)?;
        Installed::new(workspace, &library, &workspace.target(TEST_PREFIX))
    })
}

/// Installs the library that was built together with the workspace.
pub fn install_built(workspace: &Workspace, report: &Report) -> Result<Installed> {
    report.step("C library, installed", |_| {
        let library = library::built(workspace)?;
        Installed::new(workspace, &library, &workspace.target(TEST_PREFIX))
    })
}

/// Checks the header, and runs the tests of the installed library.
pub fn test(
    workspace: &Workspace,
    report: &Report,
    tools: &Tools,
    installed: &Installed,
) -> Result<()> {
    report.check("header of the C library", |step| {
        header::ready(workspace, step, false)
    });
    report.step("tests of the C library", |step| {
        tests::run(workspace, step, tools, installed)
    })
}
