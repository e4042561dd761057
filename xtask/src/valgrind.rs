//! valgrind, which counts the instructions of a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

pub const PACKAGE: &str = "valgrind";

/// Directories of the tools in an unpacked package; the second one is used by older
/// Debian releases.
const TOOLS: [&str; 2] = ["usr/libexec/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];

/// A valgrind that works on this machine.
pub struct Valgrind {
    program: PathBuf,
    /// Directory of its tools, if it is not the built-in one.
    tools: Option<PathBuf>,
}

impl Valgrind {
    /// Returns a command without the user's environment variables, so that all runs are
    /// equal.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("LC_ALL", "C");
        if let Some(tools) = &self.tools {
            command.env("VALGRIND_LIB", tools);
        }
        command
    }

    fn runs(&self) -> bool {
        let mut nothing = self.command();
        nothing.args(["--tool=none", "--quiet", "/bin/sh", "-c", ":"]);
        self.program.is_file() && process::ask(&mut nothing).is_ok()
    }
}

/// Returns the installed valgrind, or Debian's package unpacked below the target
/// directory, or `None` if neither is available.
pub fn ready(workspace: &Workspace, step: &mut Step) -> Result<Option<Valgrind>> {
    let folder = workspace.cache("valgrind");
    let installed = process::find("valgrind").map(|program| Valgrind {
        program,
        tools: None,
    });
    let mut found = installed
        .filter(Valgrind::runs)
        .or_else(|| unpacked(&folder));
    if found.is_none() && apt::can_unpack() && apt::unpack(step, PACKAGE, &folder).is_ok() {
        found = unpacked(&folder);
    }
    step.note(match &found {
        Some(valgrind) => workspace.show(&valgrind.program),
        None => "none: instructions are not counted".into(),
    });
    Ok(found)
}

fn unpacked(folder: &Path) -> Option<Valgrind> {
    TOOLS
        .iter()
        .map(|tools| Valgrind {
            program: folder.join("usr/bin/valgrind"),
            tools: Some(folder.join(tools)),
        })
        .find(Valgrind::runs)
}
