//! The C library: its header, its symbols, and its installation.

use crate::args::Capi;
use crate::capi_tests;
use crate::debian::{self, VALGRIND};
use crate::deps::NOTICES;
use crate::prelude::*;
use crate::python::{self, Environment};

pub const CRATE: &str = "native/capi";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// Extension of shared libraries, the command that lists symbols, and the variable that
/// the loader reads.
const SYSTEM: (&str, &str, &str) = match cfg!(target_os = "macos") {
    true => ("dylib", "nm -gUj", "DYLD_LIBRARY_PATH"),
    false => ("so", "nm -D --defined-only", "LD_LIBRARY_PATH"),
};

/// Runs the verb `capi`, which builds and installs the library, or runs its tests.
pub fn run(options: &Capi) -> Result<()> {
    if options.test {
        return suite();
    }
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
    report::keep(header(false));
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
        debian::require(step, debian::C, "the C library is tested with them")
    })?;
    let (mut valgrind, mut go) = (None, None);
    if Tier::of_process() == Tier::All {
        valgrind = VALGRIND.ready()?;
        go = Some(python::GO.ready()?);
    }
    Ok(Tools { valgrind, go })
}

/// Installs the library of the dev profile for the tests: in [`Tier::All`] built alone,
/// with its own features, and otherwise as built together with the workspace.
pub fn ready() -> Result<Installed> {
    static SHARED: Shared<Installed> = Shared::new();
    let prefix = target("capi-test/prefix");
    cargo::programs()?;
    match Tier::of_process() {
        Tier::Default => SHARED.step("C library, installed", |_| {
            let built = Built::in_folder("debug", None);
            // A build of the whole workspace enables more features, with which a
            // dependency exports additional symbols.
            symbols(&built, |name| name.starts_with("zstn_"), false)?;
            Installed::new(&built, prefix)
        }),
        Tier::All => SHARED.step("C library, dev build", |step| {
            Installed::new(&build(step, "dev", false)?, prefix)
        }),
    }
}

/// Compares the committed header with one generated from its sources; with `write`,
/// replaces it.
fn header(write: bool) -> Result<()> {
    step("header of the C library", |step| {
        let path = path(CRATE).join("include/zstn.h");
        let mut generate = cargo("run --quiet --package zstn-capi-header");
        let made = ask(&mut generate).context("the header cannot be generated")? + "\n";
        if fs::read_to_string(&path).is_ok_and(|committed| committed == made) {
            step.note("unchanged");
            return Ok(());
        }
        let shown = paths::show(&path);
        ensure!(
            write,
            "{shown} differs; `cargo xtask capi --write` writes it"
        );
        step.note("written");
        Ok(fs::write(path, made)?)
    })
}

struct Built {
    shared: PathBuf,
    fixed: PathBuf,
    /// Libraries that programs must also link with the static library. Only rustc knows
    /// them, and reports them when it builds this library alone.
    private: Option<String>,
}

impl Built {
    /// Returns the libraries in a profile's folder.
    fn in_folder(folder: &str, private: Option<String>) -> Self {
        let library = |ending| target(format!("{folder}/libzstn_capi.{ending}"));
        let (shared, fixed) = (library(SYSTEM.0), library("a"));
        Self {
            shared,
            fixed,
            private,
        }
    }
}

/// Builds both libraries, and compares the exported symbols of the shared one with the
/// committed list; with `write`, replaces the list.
fn build(step: &mut Step, profile: &str, write: bool) -> Result<Built> {
    let mut rustc = cargo("rustc --package zstn-capi --lib --profile");
    step.run(rustc.arg(profile).words("-- --print native-static-libs"))?;
    let output = step.output()?;
    let private = output.rsplit_once("native-static-libs: ");
    let (_, private) = private.context("rustc did not list the libraries it needs")?;
    let private = private.lines().next().unwrap_or_default();
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = Built::in_folder(folder, Some(private.trim().to_owned()));
    symbols(&built, |_| true, write)?;
    Ok(built)
}

/// Compares the symbols that the shared library exports, limited to names that
/// `is_ours` accepts, with the committed list.
fn symbols(built: &Built, is_ours: impl Fn(&str) -> bool, write: bool) -> Result<()> {
    let listed = ask(cmd(SYSTEM.1).arg(&built.shared))?;
    let names = listed
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let names = names.map(|name| name.trim_start_matches('_'));
    let mut names: Vec<&str> = names.filter(|name| is_ours(name)).collect();
    names.sort_unstable();
    let found = names.join("\n") + "\n";
    let path = path(CRATE).join("symbols.txt");
    if write {
        return Ok(fs::write(path, found)?);
    }
    ensure!(
        fs::read_to_string(&path)? == found,
        "the library exports other symbols than {}; a symbol that was released stays. `cargo xtask \
         capi --write` writes the list. It exports:\n{found}",
        paths::show(&path)
    );
    Ok(())
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
    fn new(built: &Built, prefix: PathBuf) -> Result<Self> {
        let [include, lib, pkgconfig, licences] =
            ["include", "lib", "lib/pkgconfig", "share/doc/zstn"].map(|name| prefix.join(name));
        for folder in [&include, &pkgconfig, &licences] {
            fs::create_dir_all(folder)?;
        }
        replace(&path(CRATE).join("include/zstn.h"), &include.join("zstn.h"))?;
        replace(&built.fixed, &lib.join("libzstn.a"))?;
        let name = |version: &str| match SYSTEM.0 {
            "dylib" => format!("libzstn{version}.dylib"),
            _ => format!("libzstn.so{version}"),
        };
        let [full, major] = [VERSION, MAJOR].map(|version| name(&format!(".{version}")));
        replace(&built.shared, &lib.join(&full))?;
        paths::link(&full, &lib.join(&major))?;
        paths::link(&major, &lib.join(name("")))?;
        for name in ["LICENSE", NOTICES] {
            replace(&path(name), &licences.join(name))?;
        }
        let text = fs::read_to_string(path(CRATE).join("libzstn.pc.in"))?
            .replace("@url@", env!("CARGO_PKG_REPOSITORY"))
            .replace("@version@", VERSION)
            .replace("@private@", built.private.as_deref().unwrap_or_default());
        fs::write(pkgconfig.join("libzstn.pc"), text)?;
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

/// Replaces a file atomically, since programs may be using it.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let beginning = to.with_extension("new");
    fs::copy(from, &beginning)?;
    Ok(fs::rename(&beginning, to)?)
}
