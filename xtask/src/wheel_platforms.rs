//! Wheels for users: one for the stable interface of Python on each platform, and one
//! for its free-threaded build. On Linux, zig links them, except for Windows, where MinGW
//! does. Each is checked, and tested on the interpreters that run here.

use std::env::consts::OS;

use crate::cargo::set_flags;
use crate::interpreters;
use crate::prelude::*;
use crate::python::{self, Environment};
use crate::{platforms, wasm, wheel};

#[derive(clap::Args)]
pub struct Options {
    /// Platforms; by default, this one, with the package zstn-hub and the examples of the
    /// README
    #[arg(value_name = "PLATFORM", value_parser = ALL.map(|platform| platform.name))]
    names: Vec<String>,
    /// Build for the free-threaded CPython 3.14
    #[arg(long, requires = "names")]
    free_threaded: bool,
    /// Use the viewer page of an earlier build, such as one from another machine
    #[arg(long)]
    built_page: bool,
    /// Use the dev profile, which compiles faster, and leave the viewer page as it is
    #[arg(long, requires = "names")]
    dev: bool,
}

/// The platform tag of the oldest glibc that Rust supports.
const MANYLINUX: &str = "manylinux_2_17";
/// The platform tag of the oldest musl that Rust supports.
const MUSLLINUX: &str = "musllinux_1_2";

const RELEASE: &str = "release";

/// A platform that users install wheels on.
struct Platform {
    name: &'static str,
    triple: &'static str,
    /// The beginning of the wheel's platform tag on Linux.
    libc: &'static str,
}

const fn platform(name: &'static str, triple: &'static str, libc: &'static str) -> Platform {
    Platform { name, triple, libc }
}

/// The target of wheels for Windows that are built on other systems. Zig cannot link
/// them: maturin passes its list of exported symbols to every library of the build, and
/// one of the dependencies is also built as a DLL.
const WINDOWS_GNU: &str = "x86_64-pc-windows-gnu";
const WINDOWS: &str = match cfg!(windows) {
    true => "x86_64-pc-windows-msvc",
    false => WINDOWS_GNU,
};

const ALL: [Platform; 7] = [
    platform("x86_64", "x86_64-unknown-linux-gnu", MANYLINUX),
    platform("aarch64", "aarch64-unknown-linux-gnu", MANYLINUX),
    platform("musl", "x86_64-unknown-linux-musl", MUSLLINUX),
    platform("musl-aarch64", "aarch64-unknown-linux-musl", MUSLLINUX),
    platform("windows", WINDOWS, ""),
    platform("macos", "aarch64-apple-darwin", ""),
    platform("macos-x86_64", "x86_64-apple-darwin", ""),
];

/// Runs the verb `wheel`.
pub fn run(options: &Options) -> Result<()> {
    // The command line in the wheel contains the viewer page.
    if !options.built_page && !options.dev {
        wasm::ready()?;
    }
    if options.names.is_empty() {
        return wheel::with_readme();
    }
    for name in &options.names {
        let platform = ALL.iter().find(|platform| platform.name == name);
        let platform = platform.context("the platform is unknown")?;
        steps::keep(platform.build_and_test(options));
    }
    Ok(())
}

/// Builds the wheel for this machine in `folder`, and returns its path.
pub fn build_here(folder: &Path) -> Result<PathBuf> {
    let host = cargo::rustc_field("host")?;
    let platform = ALL.iter().find(|platform| platform.triple == host);
    let platform = platform.with_context(|| format!("no wheels are built for {host}"))?;
    platform.build(RELEASE, false, folder)
}

impl Platform {
    fn build_and_test(&self, options: &Options) -> Result<()> {
        let profile = if options.dev { "dev" } else { RELEASE };
        let threads = if options.free_threaded {
            "-free-threaded"
        } else {
            ""
        };
        let folder = target("wheels").join(format!("{}{threads}", self.name));
        let wheel = self.build(profile, options.free_threaded, &folder)?;
        let (unpacked, found) = step(&format!("{}: interpreters", self.name), |step| {
            let unpacked = wheel::unpack(step, &wheel)?;
            let found = interpreters::all(step, self.triple, options.free_threaded)?;
            let titles: Vec<_> = found.iter().map(|found| found.title.as_str()).collect();
            step.note(titles.join(", "));
            ensure!(
                !found.is_empty(),
                "{} was built but has not been tested: no CPython {} for {} was found",
                paths::show(&wheel),
                interpreters::versions(options.free_threaded).join(", "),
                self.triple
            );
            Ok((unpacked, found))
        })?;
        for interpreter in &found {
            check(&format!("{}: {}", self.name, interpreter.title), |step| {
                // On wine 8, Python refuses to start if its output goes to a file.
                let output = ask(&mut interpreter.test(&wheel, &unpacked)?)?;
                step.note(output.lines().last().unwrap_or_default());
                Ok(())
            });
        }
        interpreters::end(&found);
        Ok(())
    }

    /// Builds the wheel as the only one in `folder`, and returns its path.
    fn build(&self, profile: &str, is_free_threaded: bool, folder: &Path) -> Result<PathBuf> {
        python::MATURIN.ready()?;
        // The same environment, with zig.
        let tools = python::ZIG.ready()?;
        let wheel = step(&format!("{}: wheel, {profile}", self.name), |step| {
            let toolchain = cargo::add_target(step, self.triple)?;
            let mut maturin = wheel::maturin(&tools, "build --locked --profile")?;
            maturin.args([profile, "--target", self.triple]);
            let mut flags = match profile {
                RELEASE => toolchain.remapped()?,
                _ => Vec::new(),
            };
            if self.triple == WINDOWS_GNU {
                platforms::compile_for_windows(step, &mut maturin)?;
            } else if OS == "linux" {
                maturin.arg("--zig");
            }
            if !self.libc.is_empty() {
                maturin.args(["--compatibility", self.libc]);
            }
            if self.libc == MUSLLINUX {
                // A library that is loaded cannot contain its own libc.
                flags.push("-Ctarget-feature=-crt-static".into());
            }
            if is_free_threaded {
                maturin.args(["--interpreter", "python3.14t"]);
            }
            set_flags(&mut maturin, &flags);
            maturin.env("CARGO_INCREMENTAL", "0");
            maturin.env("CARGO_PROFILE_DEV_DEBUG", "false");
            let wheel = wheel::build(step, maturin.arg("--out"), folder)?;
            if profile == RELEASE {
                cargo::refuse_paths(&wheel::unpack(step, &wheel)?)?;
            }
            let bytes = fs::metadata(&wheel)?.len();
            step.note(format!("{}, {bytes} bytes", paths::show(&wheel)));
            Ok(wheel)
        })?;
        if OS == "linux" {
            let tools = python::AUDIT.ready()?;
            step(&format!("{}: symbols of the wheel", self.name), |step| {
                self.audit(step, &tools, &wheel, is_free_threaded)
            })?;
        }
        Ok(wheel)
    }

    /// Refuses a wheel that needs newer symbols of libc than its name promises, or uses
    /// symbols of Python that are not in the stable ABI.
    fn audit(
        &self,
        step: &mut Step,
        tools: &Environment,
        wheel: &Path,
        is_free_threaded: bool,
    ) -> Result<()> {
        // maturin has compared the libraries of a wheel for musl with its tag. auditwheel
        // would read this machine's libc.so instead of the one of musl.
        if self.libc == MANYLINUX {
            let shown = ask(tools.python().words("-m auditwheel show").arg(wheel))?;
            let wanted = format!("\"{}_", self.libc);
            let mut words = shown.split_whitespace();
            let is_wanted = words.any(|word| word.starts_with(&wanted));
            ensure!(
                is_wanted,
                "auditwheel does not report {}: {shown}",
                self.libc
            );
        }
        match is_free_threaded {
            // The free-threaded CPython 3.14 has no stable interface.
            true => Ok(()),
            false => step.run(tools.python().words("-m abi3audit --strict").arg(wheel)),
        }
    }
}
