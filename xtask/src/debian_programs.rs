//! Programs from Debian packages, which are installed if the user has the privilege to
//! do so without confirmation, or only unpacked.

use std::env;
use std::sync::{Mutex, PoisonError};

use crate::prelude::*;

/// A program, or the path of a file, with the Debian package that contains it.
pub type Needed = (&'static str, &'static str);

/// Programs for the tests of the C library. Rust needs a C compiler, too.
pub const C: &[Needed] = &[
    ("c++", "g++"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
];
pub const MUSL: &[Needed] = &[("musl-gcc", "musl-tools")];

/// A program that tests use.
pub struct Program {
    title: &'static str,
    /// The environment variable that may contain the program's path.
    variable: &'static str,
    /// Names of the program in the search path, and other paths where it may be.
    names: &'static [&'static str],
    /// Arguments with which the program ends at once, to check that it runs.
    probe: &'static str,
    /// The oldest major version that is accepted.
    oldest: u32,
    packages: &'static [&'static str],
    /// Other programs in the packages, which must be present, too.
    others: &'static [&'static str],
    place: Place,
    found: Shared<Option<PathBuf>>,
}

/// The way in which a missing program is provided.
enum Place {
    /// The program's packages are installed. If that fails, this suite fails.
    Installed(&'static str),
    /// The first package that has this file is unpacked below the target directory. If
    /// that fails, some tests are skipped.
    Unpacked(&'static str),
}

use Place::{Installed, Unpacked};

#[rustfmt::skip]
pub static CHROMIUM: Program = Program {
    title: "Chromium", variable: "CHROMIUM", probe: "--version", oldest: 0,
    names: &[
        "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ],
    packages: &["chromium"], others: &[], place: Installed("chromium"), found: Shared::new(),
};

/// Firefox with WebKitGTK and a display server. Version 143 is the first one with all
/// commands that playwright uses.
#[rustfmt::skip]
pub static FIREFOX: Program = Program {
    title: "Firefox and WebKitGTK", variable: "FIREFOX", probe: "--version", oldest: 143,
    names: &["firefox-esr", "firefox"],
    packages: &["firefox-esr", "webkit2gtk-driver", "xvfb"],
    others: &["WebKitWebDriver", "Xvfb"], place: Installed("runtimes"), found: Shared::new(),
};

/// A real web server. Its package is only unpacked, because installing it would start a
/// service.
#[rustfmt::skip]
pub static NGINX: Program = Program {
    title: "nginx", variable: "", probe: "-v", oldest: 0, names: &["nginx", "/usr/sbin/nginx"],
    // The package that contains the program depends on the release of the distribution.
    packages: &["nginx", "nginx-core"], others: &[], place: Unpacked("usr/sbin/nginx"), found: Shared::new(),
};

#[rustfmt::skip]
pub static GIT_LFS: Program = Program {
    title: "git-lfs", variable: "", probe: "version", oldest: 0, names: &["git-lfs"],
    packages: &["git-lfs"], others: &[], place: Unpacked("usr/bin/git-lfs"), found: Shared::new(),
};

/// A checker for memory errors and leaks in C programs, which [`valgrind_at`] runs.
#[rustfmt::skip]
pub static VALGRIND: Program = Program {
    title: "valgrind", variable: "", probe: "--tool=none /bin/true", oldest: 0, names: &["valgrind"],
    packages: &["valgrind"], others: &[], place: Unpacked("usr/bin/valgrind"), found: Shared::new(),
};

/// Folders of valgrind's tools in its package; the second one is used by older Debian
/// releases.
const VALGRIND_TOOLS: [&str; 2] = ["usr/libexec/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];

impl Program {
    /// Returns the path of a program whose packages are installed if it is missing.
    pub fn ready(&self) -> Result<PathBuf> {
        self.find_or_get()?.context("it was not found")
    }

    /// Returns the path of a program, after installing or unpacking its packages if it is
    /// missing. Returns `None` if unpacking yields no program; its tests are then
    /// skipped.
    pub fn find_or_get(&self) -> Result<Option<PathBuf>> {
        self.found.step(self.title, |step| {
            let mut found = self.find();
            match self.place {
                Installed(suite) if found.is_none() => {
                    let installed = install(step, self.packages, "some tests run in it");
                    let instructions = || self.instructions(suite);
                    installed.with_context(instructions)?;
                    found = Some(self.find().with_context(instructions)?);
                }
                Unpacked(_) if found.is_none() => {
                    let folder = cache(self.title);
                    found = self.packages.iter().find_map(|package| {
                        unpack(step, package, &folder).ok()?;
                        self.find()
                    });
                }
                _ => {}
            }
            step.note(match &found {
                Some(program) => paths::show(program),
                None => "none: its tests are left out".into(),
            });
            Ok(found)
        })
    }

    /// Returns the first program that runs and is recent.
    fn find(&self) -> Option<PathBuf> {
        let named = env::var_os(self.variable).filter(|value| !value.is_empty());
        let unpacked = match self.place {
            Unpacked(path) => Some(cache(self.title).join(path)),
            Installed(_) => None,
        };
        let installed = self.names.iter().filter_map(|name| find(name));
        let named = named.map(PathBuf::from).into_iter();
        let mut known = named.chain(installed).chain(unpacked);
        let has_others = self.others.iter().all(|name| find(name).is_some());
        known.find(|program| has_others && self.runs(program))
    }

    fn runs(&self, program: &Path) -> bool {
        let mut probe = match self.title == VALGRIND.title {
            true => valgrind_at(program),
            false => Command::new(program),
        };
        let answer = ask(probe.words(self.probe));
        let version = |answer: &str| process::version(answer).map_or(0, |version| version.0);
        answer.is_ok_and(|answer| version(&answer) >= self.oldest)
    }

    fn instructions(&self, suite: &str) -> String {
        let (title, variable) = (self.title, self.variable);
        let oldest = match self.oldest {
            0 => String::new(),
            oldest => format!(" {oldest} or later"),
        };
        format!(
            "no {title}{oldest} was found. Do one of these, then try again:\n\
             \n    {}   (Debian)\n    export {variable}=/path/to/it   (any that you have)\n    \
             cargo xtask test --skip {suite}   (without its tests)\n",
            by_hand(self.packages)
        )
    }
}

/// Returns a command without the user's environment variables, so that all runs are
/// equal.
pub fn valgrind_at(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C");
    let folder = cache(VALGRIND.title);
    let mut tools = VALGRIND_TOOLS.iter().map(|tools| folder.join(tools));
    if program.starts_with(&folder)
        && let Some(tools) = tools.find(|tools| tools.is_dir())
    {
        command.env("VALGRIND_LIB", tools);
    }
    command
}

/// Installs the packages of those programs that are missing, after printing the reason
/// `why`.
pub fn require(step: &mut Step, needed: &[Needed], why: &str) -> Result<()> {
    let missing = needed.iter().filter(|(program, _)| find(program).is_none());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => install(step, &missing, why)
            .with_context(|| format!("install them: {}", by_hand(&missing))),
    }
}

/// Returns the command that installs `packages` manually.
pub fn by_hand(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!("sudo apt-get update && sudo apt-get install --no-install-recommends {packages}")
}

/// Installs `packages`, after printing the reason `why`. No installed package is
/// removed.
fn install(step: &mut Step, packages: &[&str], why: &str) -> Result<()> {
    let mut command = apt_get()?;
    // Some of these packages replace others, which the user may want to keep.
    command.words("install --yes -qq --no-remove --no-install-recommends");
    command.words("-o DPkg::Lock::Timeout=120").args(packages);
    let list = packages.join(", ");
    step.say(&format!("Installing {list} with apt-get: {why}."));
    updated(step, &mut command)
}

/// Downloads `package`, which needs no privilege, and unpacks it into `folder` without
/// installing it.
fn unpack(step: &mut Step, package: &str, folder: &Path) -> Result<()> {
    ensure!(find("dpkg").is_some(), "this machine has no dpkg");
    fs::create_dir_all(folder)?;
    let mut download = cmd("apt-get download");
    updated(step, download.arg(package).current_dir(folder))?;
    for file in paths::files(folder, "deb")? {
        step.run(cmd("dpkg -x").arg(&file).arg(folder))?;
        fs::remove_file(file)?;
    }
    Ok(())
}

/// The public keys of Debian, in the package debian-archive-keyring.
const DEBIAN_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks `package` of another release of Debian, or for another processor, together with
/// the packages that it depends on, and returns their common folder. Nothing is
/// installed, and no privilege is needed.
pub fn unpack_release(
    step: &mut Step,
    release: &str,
    processor: &str,
    package: &str,
) -> Result<PathBuf> {
    let root = cache(format!("{release}-{processor}-{package}"));
    let complete = root.join("complete");
    if complete.exists() {
        return Ok(root);
    }
    let servers = ask(cmd("apt-get indextargets --format $(REPO_URI)").arg("Label: Debian"));
    let server = servers
        .ok()
        .and_then(|found| Some(found.lines().next()?.to_owned()));
    let server = server.context("apt-get knows no server of Debian; `apt-get update` may help")?;
    // apt-get uses these folders instead of the system's, and believes that no package is
    // installed.
    let apt = root.join("apt");
    paths::empty(&root)?;
    for folder in [
        "etc/apt",
        "var/lib/apt/lists/partial",
        "var/lib/dpkg",
        "var/cache/apt/archives/partial",
    ] {
        fs::create_dir_all(apt.join(folder))?;
    }
    fs::write(apt.join("var/lib/dpkg/status"), "")?;
    let source = format!("deb [signed-by={DEBIAN_KEYS}] {server} {release} main\n");
    fs::write(apt.join("etc/apt/sources.list"), source)?;
    let architecture = match processor {
        "x86_64" => "amd64",
        _ => "arm64",
    };
    let apt_get = |line: &str| {
        let mut command = cmd("apt-get -o APT::Sandbox::User=root");
        for option in [
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
            format!("Dir={}", apt.display()),
        ] {
            command.arg("-o").arg(option);
        }
        command.words(line);
        command
    };
    step.run_twice(&mut apt_get("update -qq"))?;
    let line = "install --download-only --yes -qq --no-install-recommends";
    step.run_twice(apt_get(line).arg(package))?;
    for file in paths::files(&apt.join("var/cache/apt/archives"), "deb")? {
        step.run(cmd("dpkg -x").arg(&file).arg(&root))?;
    }
    fs::remove_dir_all(&apt)?;
    // Programs name their dynamic linker by this path, which older releases have in their
    // packages.
    if !root.join("lib").exists() {
        step.run(cmd("ln -s usr/lib").arg(root.join("lib")))?;
    }
    fs::write(complete, "")?;
    Ok(root)
}

/// Updates the package lists and runs `command`. The lists in a container are often
/// empty, and old lists name packages that no longer exist. Without the privilege to
/// update them, the present lists may suffice.
fn updated(step: &mut Step, command: &mut Command) -> Result<()> {
    // apt-get refuses to run twice at the same time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = apt_get().and_then(|mut apt_get| step.run(apt_get.words("update -qq")));
    step.run(command)
}

/// Returns apt-get with the privilege to install packages.
fn apt_get() -> Result<Command> {
    ensure!(find("apt-get").is_some(), "this machine has no apt-get");
    // sudo drops the environment, so the variable is set after it.
    let line = "env DEBIAN_FRONTEND=noninteractive apt-get";
    if ask(&mut cmd("id -u")).context("the user is unknown")? == "0" {
        return Ok(cmd(line));
    }
    match ask(&mut cmd("sudo -n true")) {
        Ok(_) => Ok(cmd(&format!("sudo -n {line}"))),
        Err(_) => bail!("installing packages needs root, and sudo would ask for a password"),
    }
}
