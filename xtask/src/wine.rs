//! A wine folder where Windows programs run, with the libraries and programs that tests
//! need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::platforms::DIRECTORY;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

/// Gives wine a separate folder, and suppresses its own messages: standard error must
/// only contain the output of the programs, because tests compare it.
pub fn set_environment<'a>(command: &'a mut Command, workspace: &Workspace) -> &'a mut Command {
    command
        .env("WINEPREFIX", prefix(workspace))
        .env("WINEDEBUG", "-all")
        // Prevents windows that offer to install .NET and a browser, and the creation
        // of menus.
        .env("WINEDLLOVERRIDES", "mscoree=;mshtml=;winemenubuilder.exe=")
}

/// Creates the folder and builds two files in it with a compiler for Windows: git, and
/// a library that this wine may lack.
pub fn prepare(workspace: &Workspace, step: &mut Step, compiler: &str) -> Result<()> {
    let system = prefix(workspace).join("drive_c/windows/system32");
    if !system.is_dir() {
        let mut boot = Command::new("wineboot");
        step.run(set_environment(&mut boot, workspace).arg("--init"))?;
    }
    let sources = workspace.path("tests/platforms/wine");
    let library = system.join("bcryptprimitives.dll");
    if !library.exists() {
        let mut build = Command::new(compiler);
        build.arg("-shared");
        let source = sources.join("bcryptprimitives.c");
        make(step, build, &source, &library, &["-ladvapi32"])?;
    }
    let git = system.join("git.exe");
    make(
        step,
        Command::new(compiler),
        &sources.join("git.c"),
        &git,
        &[],
    )
}

/// Ends the processes that would write to the folder for a while after the last
/// program.
pub fn end(workspace: &Workspace) {
    let mut server = Command::new("wineserver");
    let _ = process::ask(set_environment(&mut server, workspace).arg("--kill"));
}

fn make(
    step: &mut Step,
    mut build: Command,
    source: &Path,
    made: &Path,
    libraries: &[&str],
) -> Result<()> {
    build.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    step.run(build.arg(made).arg(source).args(libraries))
}

fn prefix(workspace: &Workspace) -> PathBuf {
    workspace.target(&format!("{DIRECTORY}/wine"))
}
