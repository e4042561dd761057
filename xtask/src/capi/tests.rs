//! Tests of the C library: programs in C99 and C++11, under valgrind and with
//! sanitizers; the examples in C, C++ and Go; and Python with ctypes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::CRATE;
use super::compiler::{Compiler, Language, Link, with_library};
use super::install::Installed;
use crate::background::Background;
use crate::python::{self, Environment};
use crate::step::Step;
use crate::tier::Tier;
use crate::valgrind::{self, Valgrind};
use crate::workspace::Workspace;
use crate::{apt, process, programs};

/// Programs that the tests need in addition to a C compiler, each with its Debian
/// package. Rust needs a C compiler, too.
const PROGRAMS: [(&str, &str); 3] = [
    ("c++", "g++"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
];

/// The tools of the tests.
pub struct Tools {
    /// `None` unless in [`Tier::All`].
    valgrind: Option<Valgrind>,
    /// `None` unless in [`Tier::All`].
    go: Option<Environment>,
}

impl Tools {
    /// Installs the tools. The Go toolchain takes 280 MB below `target/`.
    pub fn ready(workspace: &Workspace, step: &mut Step, tier: Tier) -> Result<Self> {
        for (program, package) in PROGRAMS {
            if process::find(program).is_none() {
                apt::install(step, &[package], "the C library is tested with it")
                    .with_context(|| format!("install it: {}", apt::by_hand(&[package])))?;
            }
        }
        if tier == Tier::Default {
            return Ok(Self {
                valgrind: None,
                go: None,
            });
        }
        let valgrind = valgrind::ready(workspace, step)?;
        let go = Some(python::go(workspace, step)?);
        step.note(match &valgrind {
            Some(_) => "Go, valgrind",
            None => "Go; without valgrind no leak is seen but by sanitizers",
        });
        Ok(Self { valgrind, go })
    }
}

/// Runs the tests.
pub fn run(
    workspace: &Workspace,
    step: &mut Step,
    tools: &Tools,
    installed: &Installed,
) -> Result<()> {
    let programs = workspace.target("capi-test/programs");
    fs::create_dir_all(&programs)
        .with_context(|| format!("{} cannot be created", programs.display()))?;
    let tests = Tests {
        workspace,
        tools,
        compiler: Compiler {
            installed,
            programs,
        },
    };
    let go = tools.go.as_ref().map(|go| tests.begin_go(go)).transpose()?;
    tests.programs(step)?;
    tests.examples(step)?;
    let mut note = String::from("C99, C++, Python, sanitizers");
    if installed.is_static() {
        note += ", static";
    }
    if tools.valgrind.is_some() {
        note += ", valgrind";
    }
    if let Some(go) = go {
        go.finish(workspace, step)?;
        tests.served(step)?;
        note += ", Go";
    }
    step.note(note);
    Ok(())
}

struct Tests<'a> {
    workspace: &'a Workspace,
    tools: &'a Tools,
    compiler: Compiler<'a>,
}

impl Tests<'_> {
    /// Builds the test program in every variant, and runs it.
    fn programs(&self, step: &mut Step) -> Result<()> {
        let sources = self.sources("tests", "c")?;
        let sanitizers = [
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
        ];
        let shared = (Language::C, Link::Shared);
        for (name, kind, options) in [
            ("c-shared", shared, &[][..]),
            ("c-static", (Language::C, Link::Static), &[]),
            ("cpp-shared", (Language::Cpp, Link::Shared), &[]),
            ("cpp-static", (Language::Cpp, Link::Static), &[]),
            ("c-sanitized", shared, &sanitizers),
        ] {
            if matches!(kind.1, Link::Static) && !self.compiler.installed.is_static() {
                continue;
            }
            let program = self.compiler.program(step, name, &sources, kind, options)?;
            let mut run = Command::new(&program);
            run.args([self.scratch()?, self.vectors()]).arg("mutations");
            self.run(step, &mut run)?;
        }
        let Some(valgrind) = &self.tools.valgrind else {
            return Ok(());
        };
        let mut run = valgrind.command();
        let suppressions = self.path("tests/valgrind.supp");
        // Threads of an engine may still be ending. Memory that they own is reported as
        // possibly lost, which is not an error here.
        run.args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .args(["--show-leak-kinds=definite,indirect"])
            .args(["--errors-for-leak-kinds=definite,indirect"])
            .arg(format!("--suppressions={}", suppressions.display()))
            .arg(self.compiler.programs.join("c-shared"))
            .args([self.scratch()?, self.vectors()]);
        self.run(step, &mut run)
    }

    fn examples(&self, step: &mut Step) -> Result<()> {
        for (folder, ending, language) in [("c", "c", Language::C), ("cpp", "cpp", Language::Cpp)] {
            for source in self.sources(&format!("examples/{folder}"), ending)? {
                let name = source.file_stem().unwrap_or_default().to_string_lossy();
                let kind = (language, Link::Shared);
                let sources = [source.clone()];
                self.compiler.program(step, &name, &sources, kind, &[])?;
            }
        }
        let programs = &self.compiler.programs;
        let mut run = self.python("examples.py");
        self.run(step, run.arg(programs).arg(self.model()))?;
        let libraries = self.compiler.installed.libraries();
        let name = format!("libzstn{}", std::env::consts::DLL_SUFFIX);
        let mut run = self.python("smoke.py");
        self.run(step, run.arg(libraries.join(name)).arg(self.model()))
    }

    /// Starts to build the Go server in the background, which takes half a minute on
    /// one core the first time.
    fn begin_go(&self, go: &Environment) -> Result<Background> {
        let mut build = Command::new(go.program("go"));
        build
            .arg("-C")
            .arg(self.path("examples/go"))
            .args(["build", "-o"])
            .arg(self.go_program())
            .arg(".")
            .env("PKG_CONFIG_PATH", self.compiler.installed.pkgconfig())
            .env("CGO_ENABLED", "1")
            // Nothing is downloaded or written outside of `target/`.
            .env("GOPROXY", "off")
            .env("GOTOOLCHAIN", "local")
            .env("GOENV", "off")
            .env("GOCACHE", self.workspace.cache("go-build"))
            .env("GOPATH", self.workspace.cache("go-path"));
        with_library(&mut build, &self.compiler.installed.libraries());
        Background::start(self.workspace, "go-build", &mut build)
    }

    /// Compares the Go server with the command line's server.
    fn served(&self, step: &mut Step) -> Result<()> {
        programs::build(self.workspace, step)?;
        let mut run = self.python("served.py");
        run.arg(self.go_program())
            .arg(self.workspace.zstn("debug"))
            .arg(self.model());
        self.run(step, &mut run)
    }

    fn go_program(&self) -> PathBuf {
        self.compiler.programs.join("unpacked")
    }

    fn run(&self, step: &mut Step, command: &mut Command) -> Result<()> {
        with_library(command, &self.compiler.installed.libraries());
        step.run(command)
    }

    fn python(&self, script: &str) -> Command {
        let mut python = Command::new("python3");
        python.arg("-B").arg(self.path("tests").join(script));
        python
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.path(CRATE).join(name)
    }

    fn vectors(&self) -> PathBuf {
        self.workspace.path("tests/vectors")
    }

    /// Returns the folder where the test program leaves its model.
    fn model(&self) -> PathBuf {
        self.workspace.target("capi-test/scratch")
    }

    /// Returns the same folder after emptying it.
    fn scratch(&self) -> Result<PathBuf> {
        let folder = self.model();
        if folder.is_dir() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        Ok(folder)
    }

    /// Returns the files of a folder with this extension, in order.
    fn sources(&self, folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
        let folder = self.path(folder);
        let found = files(&folder, ending)
            .with_context(|| format!("{} cannot be read", folder.display()))?;
        if found.is_empty() {
            bail!("{} contains no .{ending} file", folder.display());
        }
        Ok(found)
    }
}

fn files(folder: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
