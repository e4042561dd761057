//! The verb `platforms`, which builds and tests for other processors and systems, with
//! emulators. docs/platforms.md lists the results.

use crate::cargo::set_flags;
use crate::debian_programs::{self, Needed};
use crate::prelude::*;

#[derive(clap::Args)]
pub struct Options {
    /// Platforms, or msrv for the oldest Rust; all by default
    #[arg(value_name = "NAME", value_parser = ["s390x", "aarch64", "i686", "musl", "windows", "msrv"])]
    names: Vec<String>,
    /// Keep the builds for the next run
    #[arg(long)]
    keep: bool,
}

/// The target directory for all platforms, several GB, which `--keep` does not remove.
const FOLDER: &str = "platforms";

/// A platform that tests are compiled for. They run on this machine or in an emulator.
struct Platform {
    name: &'static str,
    triple: &'static str,
    /// Prefix of the names of the compiler and the archiver for the platform.
    tools: &'static str,
    /// The emulator that runs the tests; empty if this machine can run them.
    runner: &'static str,
    /// Programs and header files that the builds and the emulator need.
    needed: &'static [Needed],
    tests: &'static [Tests],
}

/// Title and arguments of `cargo test`.
type Tests = (&'static str, &'static str);

const CORE: Tests = ("the core", "--package zstn-core --lib");
/// Golden vectors, and files that must be the same on every machine.
const VECTORS: Tests = (
    "vectors and packed bytes",
    "--package zstn-tests --test formats -- vectors:: the_same_bytes",
);
const FOUR_GIB: Tests = (
    "lengths above 4 GiB",
    "--package zstn-tests --test limits -- four_gib::",
);
const LIBRARY: Tests = ("the library", "--package zstn-tests --test library");
const HTTP: Tests = ("clients and servers", "--package zstn-tests --test http");
const COMMAND_LINE: Tests = ("the command line", "--package zstn-tests --test cli");

/// The emulator of Linux programs for aarch64.
pub const QEMU_AARCH64: Needed = ("qemu-aarch64-static", "qemu-user-static");

#[rustfmt::skip]
const ALL: [Platform; 5] = [
    Platform {
        name: "s390x", triple: "s390x-unknown-linux-gnu", tools: "s390x-linux-gnu-", runner: "qemu-s390x-static",
        needed: &[
            ("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu"), ("qemu-s390x-static", "qemu-user-static"),
            ("/usr/s390x-linux-gnu/include/stdlib.h", "libc6-dev-s390x-cross"),
        ],
        tests: &[CORE, VECTORS],
    },
    Platform {
        name: "aarch64", triple: "aarch64-unknown-linux-gnu", tools: "aarch64-linux-gnu-", runner: "qemu-aarch64-static",
        needed: &[
            ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"), QEMU_AARCH64,
            ("/usr/aarch64-linux-gnu/include/stdlib.h", "libc6-dev-arm64-cross"),
        ],
        tests: &[CORE, VECTORS],
    },
    // 64-bit x86 processors run these programs without an emulator.
    Platform {
        name: "i686", triple: "i686-unknown-linux-gnu", tools: "i686-linux-gnu-", runner: "",
        needed: &[
            ("i686-linux-gnu-gcc", "gcc-i686-linux-gnu"),
            ("/usr/i686-linux-gnu/include/stdlib.h", "libc6-dev-i386-cross"),
        ],
        tests: &[CORE, VECTORS, FOUR_GIB],
    },
    Platform {
        name: MUSL, triple: "x86_64-unknown-linux-musl", tools: "musl-", runner: "",
        needed: debian_programs::MUSL,
        tests: &[VECTORS, COMMAND_LINE],
    },
    // The package wine installs the 64-bit loader, which is not in the search path.
    Platform {
        name: WINDOWS, triple: "x86_64-pc-windows-gnu", tools: "x86_64-w64-mingw32-", runner: "wine",
        needed: &[("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"), ("wine", "wine")],
        tests: &[CORE, VECTORS, LIBRARY, HTTP, COMMAND_LINE],
    },
];

const MUSL: &str = "musl";
const WINDOWS: &str = "windows";

/// Tests the named platforms, or all of them.
pub fn run(options: &Options) -> Result<()> {
    let is_wanted =
        |name| options.names.is_empty() || options.names.iter().any(|wanted| wanted == name);
    for platform in ALL.iter().filter(|platform| is_wanted(platform.name)) {
        // If this machine cannot emulate a platform, the others are still tested.
        steps::keep(platform.test());
    }
    if !options.keep {
        let _ = fs::remove_dir_all(target(FOLDER));
    }
    if is_wanted("msrv") {
        check("oldest Rust", cargo::check_oldest);
    }
    steps::summary();
    Ok(())
}

impl Platform {
    fn test(&self) -> Result<()> {
        step(&format!("{}: tools", self.name), |step| {
            debian_programs::require(step, self.needed, "tests of another platform need them")?;
            cargo::add_target(step, self.triple)?;
            if self.name == WINDOWS {
                prepare_wine(step, &self.compiler())?;
            }
            step.note(self.triple);
            Ok(())
        })?;
        for (title, arguments) in self.tests {
            check(&format!("{}: {title}", self.name), |step| {
                let mut test = self.cargo("test --locked");
                if [LIBRARY, HTTP, COMMAND_LINE].contains(&(title, arguments)) {
                    step.run(&mut self.cargo("build --package zstn-cli"))?;
                    let ending = if self.name == WINDOWS { ".exe" } else { "" };
                    let program = format!("{FOLDER}/{}/debug/zstn{ending}", self.triple);
                    test.env("ZSTN_BIN", target(program));
                }
                step.tests(test.words(arguments))
            });
        }
        if self.name == WINDOWS {
            // Otherwise wine would write to its folder for a while after the last
            // program.
            let _ = ask(with_wine(&mut cmd("wineserver --kill")));
        }
        Ok(())
    }

    fn compiler(&self) -> String {
        format!("{}gcc", self.tools)
    }

    /// Returns a cargo command with the compiler and the emulator in its environment.
    fn cargo(&self, line: &str) -> Command {
        let mut command = cargo(line);
        command
            .args(["--target", self.triple])
            .env("CARGO_TARGET_DIR", target(FOLDER))
            // The build is used once and not debugged.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            // Emulators are too slow for the full test tables, which this variable
            // selects.
            .env_remove("ZSTN_TESTS");
        self.set_compiler(&mut command);
        if !self.runner.is_empty() {
            let upper = self.triple.replace('-', "_").to_uppercase();
            command.env(format!("CARGO_TARGET_{upper}_RUNNER"), self.runner);
        }
        // Emulated systems would have to provide shared libraries.
        let is_emulated = self.triple.ends_with("linux-gnu");
        let flags = is_emulated.then(|| "-Ctarget-feature=+crt-static".to_owned());
        set_flags(&mut command, flags.as_slice());
        if self.name == WINDOWS {
            with_wine(&mut command);
        }
        command
    }

    /// Sets the compiler and the linker of a command that runs cargo.
    fn set_compiler(&self, command: &mut Command) {
        let lower = self.triple.replace('-', "_");
        let upper = lower.to_uppercase();
        command.env(format!("CC_{lower}"), self.compiler());
        if self.name != MUSL {
            command.env(format!("AR_{lower}"), format!("{}ar", self.tools));
            command.env(format!("CARGO_TARGET_{upper}_LINKER"), self.compiler());
        }
    }
}

/// Installs a compiler for Windows and wine.
fn windows_ready(step: &mut Step) -> Result<&'static Platform> {
    let windows = ALL.iter().find(|platform| platform.name == WINDOWS);
    let windows = windows.context("no platform has this name")?;
    let why = "they compile and run programs for Windows";
    debian_programs::require(step, windows.needed, why)?;
    Ok(windows)
}

/// Sets the compiler and the linker of a command that runs cargo, and installs them.
pub fn compile_for_windows(step: &mut Step, command: &mut Command) -> Result<()> {
    windows_ready(step)?.set_compiler(command);
    Ok(())
}

/// Installs wine and prepares its folder.
pub fn wine_ready(step: &mut Step) -> Result<()> {
    let compiler = windows_ready(step)?.compiler();
    prepare_wine(step, &compiler)
}

/// Returns wine's folder, which contains the drive C of Windows programs.
fn wine() -> PathBuf {
    target(FOLDER).join("wine")
}

/// Gives wine a separate folder, and suppresses its own messages: standard error must
/// only contain the output of the programs, because tests compare it.
pub fn with_wine(command: &mut Command) -> &mut Command {
    command
        .env("WINEPREFIX", wine())
        .env("WINEDEBUG", "-all")
        // Keeps Wine from offering to install .NET and a browser, and from creating menu
        // entries.
        .env("WINEDLLOVERRIDES", "mscoree=;mshtml=;winemenubuilder.exe=")
}

/// Creates wine's folder and builds two files in it with a compiler for Windows: git, and
/// a library that this version of wine may lack.
fn prepare_wine(step: &mut Step, compiler: &str) -> Result<()> {
    const OPTIONS: &str = "-O1 -Wall -Wextra -Werror -o";
    let system = wine().join("drive_c/windows/system32");
    if !system.is_dir() {
        // wine only creates the last folder of the path.
        fs::create_dir_all(wine())?;
        step.run(with_wine(&mut cmd("wineboot --init")))?;
    }
    let library = system.join("bcryptprimitives.dll");
    if !library.exists() {
        let mut build = Command::new(compiler);
        build.arg("-shared").words(OPTIONS).arg(&library);
        step.run(build.words("tests/platforms/wine/bcryptprimitives.c -ladvapi32"))?;
    }
    let mut build = Command::new(compiler);
    build.words(OPTIONS).arg(system.join("git.exe"));
    step.run(build.arg("tests/platforms/wine/git.c"))
}
