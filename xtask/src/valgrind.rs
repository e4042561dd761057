//! valgrind, which counts the instructions of a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt;
use crate::process;
use crate::step::Step;
use crate::workspace::Workspace;

pub const PACKAGE: &str = "valgrind";

/// Where a package that is unpacked elsewhere keeps its tools; older releases
/// of Debian have the second.
const TOOLS: [&str; 2] = ["usr/libexec/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];

/// A valgrind that runs here.
pub struct Valgrind {
    program: PathBuf,
    /// Its tools, if they are not where it was built for.
    tools: Option<PathBuf>,
}

impl Valgrind {
    /// Runs it without the environment of whoever asks, so that every run is
    /// the same.
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

/// The one that is installed, or Debian's package, unpacked below the target
/// directory; `None` where neither is to be had.
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
