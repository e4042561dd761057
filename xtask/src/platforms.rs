//! The verb `platforms`, which builds and tests for other processors and systems, with
//! emulators. docs/platforms.md lists the results.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Platforms;
use crate::cargo::cargo;
use crate::step::{Report, Step};
use crate::workspace::Workspace;
use crate::{apt, build_paths, counts, oldest_rust, process, rust_target, wine};

/// The target directory for all platforms, several GB, which `--keep` does not remove.
pub const DIRECTORY: &str = "platforms";

/// A platform on which tests run with an emulator.
struct Platform {
    name: &'static str,
    triple: &'static str,
    /// Programs and header files that it needs, each with its Debian package.
    files: &'static [(&'static str, &'static str)],
    compiler: &'static str,
    archiver: &'static str,
    /// The emulator that runs its programs; `None` if this machine can.
    runner: Option<&'static str>,
    flags: &'static [&'static str],
    tests: &'static [Tests],
}

/// A call of `cargo test`.
struct Tests {
    title: &'static str,
    arguments: &'static [&'static str],
}

/// Flags for programs without shared libraries, which the emulated system would have to
/// provide.
const STATIC: &[&str] = &["-Ctarget-feature=+crt-static"];

const CORE: Tests = Tests {
    title: "the core",
    arguments: &["--package", "zstn-core", "--lib"],
};

/// Golden vectors, and files that must be the same on every machine.
const VECTORS: Tests = Tests {
    title: "vectors and packed bytes",
    arguments: &[
        "--package",
        "zstn-tests",
        "--test",
        "formats",
        "--",
        "vectors::",
        "released::",
        "the_same_bytes",
    ],
};

const FOUR_GIB: Tests = Tests {
    title: "lengths above 4 GiB",
    arguments: &[
        "--package",
        "zstn-tests",
        "--test",
        "limits",
        "--",
        "four_gib::",
    ],
};

const LIBRARY: Tests = Tests {
    title: "the library",
    arguments: &["--package", "zstn-tests", "--test", "library"],
};

const HTTP: Tests = Tests {
    title: "clients and servers",
    arguments: &["--package", "zstn-tests", "--test", "http"],
};

const COMMAND_LINE: Tests = Tests {
    title: "the command line",
    arguments: &["--package", "zstn-tests", "--test", "cli"],
};

const ALL: [Platform; 5] = [
    Platform {
        name: "s390x",
        triple: "s390x-unknown-linux-gnu",
        files: &[
            ("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu"),
            (
                "/usr/s390x-linux-gnu/include/stdlib.h",
                "libc6-dev-s390x-cross",
            ),
            ("qemu-s390x-static", "qemu-user-static"),
        ],
        compiler: "s390x-linux-gnu-gcc",
        archiver: "s390x-linux-gnu-ar",
        runner: Some("qemu-s390x-static"),
        flags: STATIC,
        tests: &[CORE, VECTORS],
    },
    Platform {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        files: &[
            ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
            (
                "/usr/aarch64-linux-gnu/include/stdlib.h",
                "libc6-dev-arm64-cross",
            ),
            ("qemu-aarch64-static", "qemu-user-static"),
        ],
        compiler: "aarch64-linux-gnu-gcc",
        archiver: "aarch64-linux-gnu-ar",
        runner: Some("qemu-aarch64-static"),
        flags: STATIC,
        tests: &[CORE, VECTORS],
    },
    Platform {
        name: "i686",
        triple: "i686-unknown-linux-gnu",
        files: &[
            ("i686-linux-gnu-gcc", "gcc-i686-linux-gnu"),
            (
                "/usr/i686-linux-gnu/include/stdlib.h",
                "libc6-dev-i386-cross",
            ),
        ],
        compiler: "i686-linux-gnu-gcc",
        archiver: "i686-linux-gnu-ar",
        // 64-bit x86 processors run these programs without an emulator.
        runner: None,
        flags: STATIC,
        tests: &[CORE, VECTORS, FOUR_GIB],
    },
    Platform {
        name: "musl",
        triple: "x86_64-unknown-linux-musl",
        files: &[("musl-gcc", "musl-tools")],
        compiler: "musl-gcc",
        archiver: "ar",
        runner: None,
        flags: &[],
        tests: &[VECTORS, COMMAND_LINE],
    },
    Platform {
        name: "windows",
        triple: "x86_64-pc-windows-gnu",
        files: &[
            ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"),
            // This package installs the 64-bit loader, which is not in the search path.
            ("wine", "wine"),
        ],
        compiler: "x86_64-w64-mingw32-gcc",
        archiver: "x86_64-w64-mingw32-ar",
        runner: Some("wine"),
        flags: &[],
        tests: &[CORE, VECTORS, LIBRARY, HTTP, COMMAND_LINE],
    },
];

/// Name of the check with the oldest Rust; all other names are platforms.
const OLDEST_RUST: &str = "msrv";

/// Tests the named platforms, or all of them.
pub fn run(workspace: &Workspace, report: &Report, options: &Platforms) -> Result<()> {
    for name in &options.names {
        if name != OLDEST_RUST && ALL.iter().all(|platform| platform.name != name) {
            let names: Vec<&str> = ALL.iter().map(|platform| platform.name).collect();
            bail!(
                "there is no platform `{name}`: {} or {OLDEST_RUST}",
                names.join(", ")
            );
        }
    }
    let is_wanted =
        |name: &str| options.names.is_empty() || options.names.iter().any(|wanted| wanted == name);
    for platform in ALL.iter().filter(|platform| is_wanted(platform.name)) {
        let tested = platform.test(workspace, report);
        // If this machine cannot emulate a platform, the others are still tested.
        report.keep(tested);
    }
    if !options.keep {
        let _ = fs::remove_dir_all(workspace.target(DIRECTORY));
    }
    if is_wanted(OLDEST_RUST) {
        report.check("oldest Rust", |step| oldest_rust::check(workspace, step));
    }
    report.summary();
    report.kept()
}

impl Platform {
    fn test(&self, workspace: &Workspace, report: &Report) -> Result<()> {
        report.step(&format!("{}: tools", self.name), |step| {
            self.ready(workspace, step)
        })?;
        for tests in self.tests {
            report.check(&format!("{}: {}", self.name, tests.title), |step| {
                let mut command = self.cargo(workspace);
                let mut arguments = tests.arguments.iter();
                if arguments.any(|argument| ["library", "http", "cli"].contains(argument)) {
                    step.run(
                        self.cargo(workspace)
                            .args(["build", "--package", "zstn-cli"])
                            .args(["--target", self.triple]),
                    )?;
                    command.env("ZSTN_BIN", self.program(workspace));
                }
                command.args(["test", "--locked", "--target", self.triple]);
                step.run(command.args(tests.arguments))?;
                counts::note(step)
            });
        }
        if self.is_windows() {
            // Otherwise wine would write to its folder for a while after the last
            // program.
            wine::end(workspace);
        }
        Ok(())
    }

    /// Installs the compiler, the emulator and the standard library.
    fn ready(&self, workspace: &Workspace, step: &mut Step) -> Result<()> {
        let missing = self.files.iter();
        let missing: Vec<&str> = missing
            .filter(|(file, _)| process::find(file).is_none())
            .map(|(_, package)| *package)
            .collect();
        if !missing.is_empty() {
            apt::install(step, &missing, "tests of another platform need them")
                .with_context(|| format!("install them: {}", apt::by_hand(&missing)))?;
        }
        rust_target::add(workspace, step, self.triple)?;
        if self.is_windows() {
            wine::prepare(workspace, step, self.compiler)?;
        }
        step.note(self.triple);
        Ok(())
    }

    /// Returns a cargo command with the compiler and the emulator in its environment.
    fn cargo(&self, workspace: &Workspace) -> Command {
        let mut command = cargo(workspace);
        let lower = self.triple.replace('-', "_");
        let upper = lower.to_uppercase();
        command
            .env("CARGO_TARGET_DIR", workspace.target(DIRECTORY))
            // The build is used once and not debugged.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env(format!("CC_{lower}"), self.compiler)
            .env(format!("AR_{lower}"), self.archiver);
        if self.triple != "x86_64-unknown-linux-musl" {
            command.env(format!("CARGO_TARGET_{upper}_LINKER"), self.compiler);
        }
        if let Some(runner) = self.runner {
            command.env(format!("CARGO_TARGET_{upper}_RUNNER"), runner);
        }
        if self.is_windows() {
            wine::set_environment(&mut command, workspace);
        }
        let flags: Vec<String> = self.flags.iter().map(|flag| (*flag).to_owned()).collect();
        build_paths::set_flags(&mut command, &flags);
        command
    }

    fn is_windows(&self) -> bool {
        self.triple.contains("windows")
    }

    fn program(&self, workspace: &Workspace) -> std::path::PathBuf {
        let ending = if self.is_windows() { ".exe" } else { "" };
        let path = format!("{DIRECTORY}/{}/debug/zstn{ending}", self.triple);
        workspace.target(&path)
    }
}
