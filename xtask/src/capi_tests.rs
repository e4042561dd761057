//! Tests of the C library: programs in C99 and C++11, under valgrind and with
//! sanitizers; the examples in C, C++ and Go; and Python with ctypes.

use crate::capi::{CRATE, Installed, Tools};
use crate::debian_programs;
use crate::prelude::*;
use crate::python::Environment;

/// Compilers with their options. The test sources are C files, which are also compiled
/// as C++.
const C: &str = "cc -std=c99 -D_POSIX_C_SOURCE=200809L";
const CPP: &str = "c++ -std=c++11 -x c++";
const OPTIONS: &str = "-Wall -Wextra -pedantic -Werror -g -pthread";
const SANITIZERS: &str =
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer";

/// Variants of the test program: name, compiler, whether it is linked statically, and
/// options.
const VARIANTS: [(&str, &str, bool, &str); 5] = [
    ("c-shared", C, false, ""),
    ("c-static", C, true, ""),
    ("cpp-shared", CPP, false, ""),
    ("cpp-static", CPP, true, ""),
    ("c-sanitized", C, false, SANITIZERS),
];

/// Environment variables with which Go downloads nothing and ignores the user's settings.
const GO_SETTINGS: [(&str, &str); 4] = [
    ("CGO_ENABLED", "1"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("GOENV", "off"),
];

pub fn run(step: &mut Step, tools: &Tools, installed: &Installed) -> Result<()> {
    let tests = Tests {
        installed,
        programs: target("capi-test/programs"),
        model: target("capi-test/scratch"),
    };
    fs::create_dir_all(&tests.programs)?;
    tests.variants(step)?;
    let mut note = String::from("C99, C++, Python, sanitizers");
    if installed.is_static {
        note += ", static";
    }
    if let Some(valgrind) = &tools.valgrind {
        tests.leaks(step, valgrind)?;
        note += ", valgrind";
    }
    tests.examples(step)?;
    if let Some(go) = &tools.go {
        tests.build_go(step, go)?;
        // Compares the Go server with the command line's server.
        let mut served = tests.python("served.py");
        served
            .arg(tests.programs.join("unpacked"))
            .arg(program("debug/zstn"));
        tests.run(step, served.arg(&tests.model))?;
        note += ", Go";
    }
    step.note(note);
    Ok(())
}

struct Tests<'a> {
    installed: &'a Installed,
    programs: PathBuf,
    /// The folder where the test program leaves its model.
    model: PathBuf,
}

impl Tests<'_> {
    fn compile(
        &self,
        step: &mut Step,
        (name, compiler, is_static, options): (&str, &str, bool, &str),
        sources: &[PathBuf],
    ) -> Result<()> {
        let line = if is_static {
            "--static --libs"
        } else {
            "--libs"
        };
        let mut libraries = self.installed.pkg_config(line)?;
        if is_static {
            // If both libraries were found, the linker would prefer the shared one.
            let fixed = self.installed.libraries().join("libzstn.a");
            let words = libraries.iter_mut().filter(|word| *word == "-lzstn");
            words.for_each(|word| *word = fixed.display().to_string());
        }
        let mut command = cmd(compiler);
        command.words(OPTIONS).words(options);
        command.args(self.installed.pkg_config("--cflags")?);
        command.args(sources).words("-x none -o");
        command.arg(self.programs.join(name));
        step.run(command.args(libraries))
    }

    /// Builds the test program in every variant, and runs it.
    fn variants(&self, step: &mut Step) -> Result<()> {
        let sources = sources("tests", "c")?;
        for variant in VARIANTS {
            if variant.2 && !self.installed.is_static {
                continue;
            }
            self.compile(step, variant, &sources)?;
            paths::empty(&self.model)?;
            let mut run = Command::new(self.programs.join(variant.0));
            self.run(step, run.arg(&self.model).words("tests/vectors mutations"))?;
        }
        Ok(())
    }

    /// Runs the test program under valgrind.
    fn leaks(&self, step: &mut Step, valgrind: &Path) -> Result<()> {
        let mut run = debian_programs::valgrind_at(valgrind);
        // Threads of an engine may still be ending. Memory that they own is reported as
        // possibly lost, which is not an error here.
        run.words("--quiet --error-exitcode=9 --leak-check=full")
            .words("--show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect")
            .words("--suppressions=native/capi/tests/valgrind.supp");
        paths::empty(&self.model)?;
        run.arg(self.programs.join("c-shared")).arg(&self.model);
        self.run(step, run.arg("tests/vectors"))
    }

    fn examples(&self, step: &mut Step) -> Result<()> {
        for (folder, ending, compiler) in [("c", "c", C), ("cpp", "cpp", CPP)] {
            for source in sources(&format!("examples/{folder}"), ending)? {
                let name = paths::name(&source.with_extension(""));
                self.compile(step, (&name, compiler, false, ""), &[source])?;
            }
        }
        let mut examples = self.python("examples.py");
        self.run(step, examples.arg(&self.programs).arg(&self.model))?;
        let name = format!("libzstn{}", std::env::consts::DLL_SUFFIX);
        let library = self.installed.libraries().join(name);
        self.run(step, self.python("smoke.py").arg(library).arg(&self.model))
    }

    /// Builds the Go server, which takes half a minute the first time.
    fn build_go(&self, step: &mut Step, go: &Environment) -> Result<()> {
        let mut build = Command::new(go.program("go"));
        build.words("-C native/capi/examples/go build -o");
        build.arg(self.programs.join("unpacked")).arg(".");
        for (name, value) in GO_SETTINGS {
            build.env(name, value);
        }
        build.env("GOCACHE", cache("go-build"));
        build.env("GOPATH", cache("go-path"));
        self.run(step, &mut build)
    }

    fn run(&self, step: &mut Step, command: &mut Command) -> Result<()> {
        step.run(self.installed.set_environment(command))
    }

    fn python(&self, script: &str) -> Command {
        cmd(&format!("python3 -B {CRATE}/tests/{script}"))
    }
}

/// Returns the files in a folder of the crate with this extension.
fn sources(folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let found = paths::files(&path(CRATE).join(folder), ending)?;
    ensure!(!found.is_empty(), "{folder} contains no .{ending} file");
    Ok(found)
}
