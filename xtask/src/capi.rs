//! The C library: its header, its symbols, and its installation.

use crate::capi_tests;
use crate::debian_programs::{self, VALGRIND};
use crate::deps::NOTICES;
use crate::prelude::*;
use crate::python::{self, Environment};

pub const CRATE: &str = "native/capi";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");
const WRITE: &str = "cargo xtask capi --write";

/// Extension of shared libraries, the command that lists symbols, and the variable that
/// the loader reads.
const SYSTEM: (&str, &str, &str) = match cfg!(target_os = "macos") {
    true => ("dylib", "nm -gUj", "DYLD_LIBRARY_PATH"),
    false => ("so", "nm -D --defined-only", "LD_LIBRARY_PATH"),
};

#[derive(clap::Args)]
pub struct Options {
    /// Folder to install to; target/capi by default
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Build with the dev profile
    #[arg(long)]
    dev: bool,
    /// Write the header and the list of symbols first
    #[arg(long)]
    write: bool,
}

/// Runs the verb `capi`, which builds and installs the library.
pub fn run(options: &Options) -> Result<()> {
    header(options.write)?;
    let profile = if options.dev { "dev" } else { "release" };
    let built = step("C library", |step| build(step, profile, options.write))?;
    step("installation of the C library", |step| {
        let default = || target("capi");
        let prefix = std::path::absolute(options.prefix.clone().unwrap_or_else(default))?;
        let installed = Installed::new(&built, prefix)?;
        step.note(paths::show(&installed.prefix));
        Ok(())
    })
}

/// Runs the suite `c`, which checks the header and tests the installed library.
pub fn suite() -> Result<()> {
    let tools = tools()?;
    let installed = ready()?;
    steps::keep(header(false));
    step("tests of the C library", |step| {
        capi_tests::run(step, &tools, &installed)
    })
}

/// Programs that the tests need in addition to compilers. Both are `None` unless in
/// [`Tier::All`].
pub struct Tools {
    pub valgrind: Option<PathBuf>,
    pub go: Option<Environment>,
}

/// Installs the tools of the tests. The Go toolchain takes 280 MB.
pub fn tools() -> Result<Tools> {
    step("tools for the C library", |step| {
        debian_programs::require(
            step,
            debian_programs::C,
            "the C library is tested with them",
        )
    })?;
    let (mut valgrind, mut go) = (None, None);
    if Tier::of_process() == Tier::All {
        valgrind = VALGRIND.find_or_get()?;
        go = Some(python::GO.ready()?);
    }
    Ok(Tools { valgrind, go })
}

/// Installs the library of the dev profile for the tests: in [`Tier::All`] built alone,
/// with its own features, and otherwise as built together with the workspace.
pub fn ready() -> Result<Installed> {
    static SHARED: Shared<Installed> = Shared::new();
    cargo::programs()?;
    SHARED.step("C library, dev build", |step| {
        let built = match Tier::of_process() {
            Tier::All => build(step, "dev", false)?,
            Tier::Default => Built::in_folder("debug", None, false)?,
        };
        Installed::new(&built, target("capi-test/prefix"))
    })
}

/// Compares the committed header with one generated from its sources; with `write`,
/// replaces it.
fn header(write: bool) -> Result<()> {
    step("header of the C library", |_| {
        let mut generate = cargo("run --quiet --package zstn-capi-header");
        let made = ask(&mut generate).context("the header cannot be generated")? + "\n";
        paths::check_generated(&path(CRATE).join("include/zstn.h"), &made, write, WRITE)
    })
}

pub struct Built {
    shared: PathBuf,
    fixed: PathBuf,
    /// Libraries that programs must also link with the static library. Only rustc knows
    /// them, and reports them when it builds this library alone.
    private: Option<String>,
}

impl Built {
    /// Returns the libraries in a profile's folder, after comparing the exported symbols
    /// of the shared one with the committed list; with `write`, replaces the list.
    fn in_folder(folder: &str, private: Option<String>, write: bool) -> Result<Self> {
        let library = |ending| target(format!("{folder}/libzstn_capi.{ending}"));
        let (shared, fixed) = (library(SYSTEM.0), library("a"));
        let listed = ask(cmd(SYSTEM.1).arg(&shared))?;
        let names = listed
            .lines()
            .filter_map(|line| line.split(' ').next_back());
        let names = names.map(|name| name.trim_start_matches('_'));
        // A build of the whole workspace enables more features, with which a dependency
        // exports additional symbols.
        let is_ours = |name: &&str| private.is_some() || name.starts_with("zstn_");
        let mut names: Vec<&str> = names.filter(is_ours).collect();
        names.sort_unstable();
        let found = names.join("\n") + "\n";
        paths::check_generated(&path(CRATE).join("symbols.txt"), &found, write, WRITE)
            .with_context(|| format!("a symbol that was released stays; there are:\n{found}"))?;
        Ok(Self {
            shared,
            fixed,
            private,
        })
    }
}

/// Builds the shared and the static library without the rest of the workspace.
fn build(step: &mut Step, profile: &str, write: bool) -> Result<Built> {
    let mut rustc = cargo("rustc --package zstn-capi --lib --profile");
    let private = compile(step, rustc.arg(profile).arg("--"))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Built::in_folder(folder, Some(private), write)
}

/// Runs `cargo rustc` of the library, and returns the libraries that programs must also
/// link with the static library.
fn compile(step: &mut Step, rustc: &mut Command) -> Result<String> {
    step.run(rustc.words("--print native-static-libs"))?;
    let output = step.output()?;
    let private = output.rsplit_once("native-static-libs: ");
    let (_, private) = private.context("rustc did not list the libraries it needs")?;
    Ok(private.lines().next().unwrap_or_default().trim().to_owned())
}

/// Builds the library for users of Linux with zig, which links it against the oldest
/// glibc that Rust supports.
pub fn build_released(
    step: &mut Step,
    tools: &Environment,
    triple: &str,
    glibc: &str,
) -> Result<Built> {
    let toolchain = cargo::add_target(step, triple)?;
    let mut rustc = Command::new(tools.program("cargo-zigbuild"));
    cargo::set_environment(&mut rustc);
    cargo::set_flags(&mut rustc, &toolchain.remapped()?);
    rustc
        .env("PATH", tools.search_path()?)
        .env("CARGO_INCREMENTAL", "0")
        .words("rustc --locked --package zstn-capi --lib --release --target")
        .arg(format!("{triple}.{glibc}"))
        // Symbols that are not exported make up a third of a shared library.
        .words("-- -Cstrip=symbols");
    let private = compile(step, &mut rustc)?;
    Built::in_folder(&format!("{triple}/release"), Some(private), false)
}

/// The installed library: a header, a shared and a static library, and a file for
/// pkg-config.
#[derive(Clone)]
pub struct Installed {
    pub prefix: PathBuf,
    /// True if the system libraries that the static library needs are known, so that
    /// programs can be linked with it.
    pub is_static: bool,
}

impl Installed {
    /// Installs the library below `prefix`, replacing an earlier installation.
    pub fn new(built: &Built, prefix: PathBuf) -> Result<Self> {
        let name = |version: &str| match SYSTEM.0 {
            "dylib" => format!("libzstn{version}.dylib"),
            _ => format!("libzstn.so{version}"),
        };
        let [full, major] = [VERSION, MAJOR].map(|version| name(&format!(".{version}")));
        for (from, to) in [
            (path(CRATE).join("include/zstn.h"), "include/zstn.h"),
            (built.fixed.clone(), "lib/libzstn.a"),
            (built.shared.clone(), &format!("lib/{full}")),
            (path("LICENSE"), "share/doc/zstn/LICENSE"),
            (path(NOTICES), &format!("share/doc/zstn/{NOTICES}")),
        ] {
            // Files are replaced atomically, since programs may be using them.
            let to = prefix.join(to);
            let beginning = to.with_extension("new");
            fs::create_dir_all(to.with_file_name(""))?;
            fs::copy(from, &beginning)?;
            fs::rename(beginning, to)?;
        }
        let text = fs::read_to_string(path(CRATE).join("libzstn.pc.in"))?
            .replace("@url@", env!("CARGO_PKG_REPOSITORY"))
            .replace("@version@", VERSION)
            .replace("@private@", built.private.as_deref().unwrap_or_default());
        let folder = prefix.join("lib/pkgconfig");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("libzstn.pc"), text)?;
        link(&full, &prefix.join("lib").join(&major))?;
        link(&major, &prefix.join("lib").join(name("")))?;
        let is_static = built.private.is_some();
        Ok(Self { prefix, is_static })
    }

    pub fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Queries pkg-config for compiler arguments.
    pub fn pkg_config(&self, line: &str) -> Result<Vec<String>> {
        let mut command = cmd("pkg-config");
        command.words(line).arg("libzstn");
        let said = ask(self.set_environment(&mut command))?;
        Ok(said.split_whitespace().map(str::to_owned).collect())
    }

    /// Makes pkg-config and the loader of programs find the library.
    pub fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let folder = self.libraries();
        command
            .env("PKG_CONFIG_PATH", folder.join("pkgconfig"))
            .env(SYSTEM.2, folder)
    }
}

/// Creates a symbolic link, and replaces an old one.
#[cfg(unix)]
fn link(to: &str, link: &Path) -> Result<()> {
    // The file usually does not exist.
    let _ = fs::remove_file(link);
    Ok(std::os::unix::fs::symlink(to, link)?)
}

#[cfg(not(unix))]
fn link(to: &str, link: &Path) -> Result<()> {
    bail!("{} would be a link to {to}", link.display())
}
