//! Compiles programs with the installed library.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::install::Installed;
use crate::step::Step;

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The language of a program.
#[derive(Clone, Copy)]
pub enum Language {
    C,
    Cpp,
}

/// The library variant that a program is linked with.
#[derive(Clone, Copy)]
pub enum Link {
    Shared,
    Static,
}

/// A C and C++ compiler for programs that use the library.
pub struct Compiler<'a> {
    pub installed: &'a Installed,
    /// Folder for compiled programs.
    pub programs: PathBuf,
}

impl Compiler<'_> {
    /// Compiles `sources` to the program `name` and returns its path.
    pub fn program(
        &self,
        step: &mut Step,
        name: &str,
        sources: &[PathBuf],
        (language, link): (Language, Link),
        options: &[&str],
    ) -> Result<PathBuf> {
        let program = self.programs.join(name);
        let mut compiler = match language {
            Language::C => Command::new("cc"),
            Language::Cpp => Command::new("c++"),
        };
        match language {
            Language::C => compiler.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L"]),
            // The test sources are C files, which are compiled as C++ here.
            Language::Cpp => compiler.args(["-std=c++11", "-x", "c++"]),
        };
        compiler
            .args(WARNINGS)
            .args(["-g", "-pthread"])
            .args(options)
            .args(self.installed.ask(&["--cflags"])?)
            .args(sources)
            .args(["-x", "none", "-o"])
            .arg(&program)
            .args(self.libraries(link)?);
        step.run(&mut compiler)?;
        Ok(program)
    }

    fn libraries(&self, link: Link) -> Result<Vec<OsString>> {
        let Link::Static = link else {
            return self.installed.ask(&["--libs"]);
        };
        let fixed = self
            .installed
            .libraries()
            .join("libzstn.a")
            .into_os_string();
        let all = self.installed.ask(&["--static", "--libs"])?;
        let choose = |argument: OsString| match argument == "-lzstn" {
            // If both were found, the linker would prefer the shared library.
            true => fixed.clone(),
            false => argument,
        };
        Ok(all.into_iter().map(choose).collect())
    }
}

/// Sets the search path for the shared library.
pub fn with_library(command: &mut Command, libraries: &Path) {
    let name = match cfg!(target_os = "macos") {
        true => "DYLD_LIBRARY_PATH",
        false => "LD_LIBRARY_PATH",
    };
    command.env(OsStr::new(name), libraries);
}
