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

/// A browser that is installed if it is missing.
struct Browser {
    title: &'static str,
    /// The environment variable that contains the path of one.
    variable: &'static str,
    names: &'static [&'static str],
    oldest: u32,
    packages: &'static [&'static str],
    /// Other programs in the packages.
    others: &'static [&'static str],
    suite: &'static str,
    found: Shared<PathBuf>,
}

#[rustfmt::skip]
static CHROMIUM: Browser = Browser {
    title: "Chromium", variable: "CHROMIUM", suite: "chromium", oldest: 0,
    names: &[
        "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ],
    packages: &["chromium"], others: &[], found: Shared::new(),
};

/// Version 143 is the first one with all commands that playwright uses.
#[rustfmt::skip]
static FIREFOX: Browser = Browser {
    title: "Firefox and WebKitGTK", variable: "FIREFOX", suite: "runtimes", oldest: 143,
    names: &["firefox-esr", "firefox"],
    packages: &["firefox-esr", "webkit2gtk-driver", "xvfb"],
    others: &["WebKitWebDriver", "Xvfb"], found: Shared::new(),
};

pub fn chromium() -> Result<PathBuf> {
    CHROMIUM.ready()
}

/// Returns the path of the Firefox for the tests, which is installed together with
/// WebKitGTK and a display server.
pub fn firefox() -> Result<PathBuf> {
    FIREFOX.ready()
}

impl Browser {
    fn ready(&self) -> Result<PathBuf> {
        self.found.step(self.title, |step| {
            let mut found = self.find();
            if found.is_none() {
                // Outdated package lists name an old version, whose package may still
                // exist.
                let updated = update(step);
                let why = "some tests run in it";
                let installed = updated.and_then(|()| install(step, self.packages, why));
                installed.with_context(|| self.instructions())?;
                found = self.find();
            }
            let found = found.with_context(|| self.instructions())?;
            step.note(paths::show(&found));
            Ok(found)
        })
    }

    fn find(&self) -> Option<PathBuf> {
        let named = env::var_os(self.variable).filter(|value| !value.is_empty());
        let installed = || self.names.iter().find_map(|name| process::find(name));
        let found = named.map(PathBuf::from).or_else(installed)?;
        let version = ask(Command::new(&found).arg("--version")).ok()?;
        let is_recent = process::version(&version)?.0 >= self.oldest;
        let has_others = self.others.iter().all(|name| process::find(name).is_some());
        (is_recent && has_others).then_some(found)
    }

    fn instructions(&self) -> String {
        let (title, variable, suite) = (self.title, self.variable, self.suite);
        let oldest = format!(" {} or later", self.oldest);
        let oldest = if self.oldest > 0 { oldest.as_str() } else { "" };
        format!(
            "no {title}{oldest} was found. Do one of these, then try again:\n\
             \n    {}   (Debian)\n    export {variable}=/path/to/it   (any that you have)\n    \
             cargo xtask test --skip {suite}   (without its tests)\n",
            by_hand(self.packages)
        )
    }
}

/// A program that is only unpacked below the target directory if it is not installed.
pub struct Unpacked {
    name: &'static str,
    /// Packages that may contain it, depending on the release of the distribution.
    packages: &'static [&'static str],
    path: &'static str,
    /// Arguments with which it ends at once.
    probe: &'static str,
    found: Shared<Option<PathBuf>>,
}

/// A real web server. Installing its package would start a service.
pub static NGINX: Unpacked = unpacked("nginx", &["nginx", "nginx-core"], "usr/sbin/nginx", "-v");
pub static GIT_LFS: Unpacked = unpacked("git-lfs", &["git-lfs"], "usr/bin/git-lfs", "version");
/// [`valgrind_at`] runs it.
pub static VALGRIND: Unpacked = unpacked(
    "valgrind",
    &["valgrind"],
    "usr/bin/valgrind",
    "--tool=none /bin/true",
);
/// Folders of valgrind's tools in its package; the second one is used by older Debian
/// releases.
const VALGRIND_TOOLS: [&str; 2] = ["usr/libexec/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];

const fn unpacked(
    name: &'static str,
    packages: &'static [&'static str],
    path: &'static str,
    probe: &'static str,
) -> Unpacked {
    Unpacked {
        name,
        packages,
        path,
        probe,
        found: Shared::new(),
    }
}

impl Unpacked {
    /// Returns the path of the program, or `None` if neither the program nor a package
    /// is available; its tests are then skipped.
    pub fn ready(&self) -> Result<Option<PathBuf>> {
        self.found.step(self.name, |step| {
            let folder = cache(self.name);
            let unpacked = folder.join(self.path);
            let installed = process::find(self.name).into_iter();
            let mut known = installed.chain([Path::new("/").join(self.path), unpacked.clone()]);
            let mut found = known.find(|program| self.runs(program));
            let mut packages = self.packages.iter();
            if found.is_none()
                && packages.any(|name| unpack(step, name, &folder).is_ok() && self.runs(&unpacked))
            {
                found = Some(unpacked);
            }
            step.note(match &found {
                Some(program) => paths::show(program),
                None => "none: its tests are left out".into(),
            });
            Ok(found)
        })
    }

    fn runs(&self, program: &Path) -> bool {
        let mut probe = match self.name == VALGRIND.name {
            true => valgrind_at(program),
            false => Command::new(program),
        };
        program.is_file() && ask(probe.words(self.probe)).is_ok()
    }
}

/// Returns a command without the user's environment variables, so that all runs are
/// equal.
pub fn valgrind_at(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C");
    let folder = cache(VALGRIND.name);
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
    let missing = needed
        .iter()
        .filter(|needed| process::find(needed.0).is_none());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(step, &missing, why).with_context(|| format!("install them: {}", by_hand(&missing)))
}

/// Returns the command that installs `packages` manually.
pub fn by_hand(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!("sudo apt-get update && sudo apt-get install --no-install-recommends {packages}")
}

/// Serialises calls, since apt-get refuses to run twice at the same time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Installs `packages`, after printing the reason `why`. No installed package is
/// removed.
pub fn install(step: &mut Step, packages: &[&str], why: &str) -> Result<()> {
    if process::find("apt-get").is_none() {
        bail!("this machine has no apt-get");
    }
    let mut command = apt_get()?;
    // Some of these packages replace others, which the user may want to keep.
    command.words("install --yes -qq --no-remove --no-install-recommends");
    command.words("-o DPkg::Lock::Timeout=120").args(packages);
    let list = packages.join(", ");
    step.say(&format!("Installing {list} with apt-get: {why}."));
    run_or_update(step, &mut command)
}

fn update(step: &mut Step) -> Result<()> {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    step.run(apt_get()?.words("update -qq"))
}

/// Runs `command`, and again with new package lists if it fails: they are often empty
/// or outdated, especially in containers.
fn run_or_update(step: &mut Step, command: &mut Command) -> Result<()> {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if step.run(command).is_ok() {
        return Ok(());
    }
    step.run(apt_get()?.words("update -qq"))?;
    step.run(command)
}

/// Downloads `package`, which needs no privilege, and unpacks it into `folder` without
/// installing it.
fn unpack(step: &mut Step, package: &str, folder: &Path) -> Result<()> {
    if process::find("apt-get").is_none() || process::find("dpkg").is_none() {
        bail!("this machine has no apt-get");
    }
    fs::create_dir_all(folder)?;
    let mut download = cmd("apt-get download");
    run_or_update(step, download.arg(package).current_dir(folder))?;
    for file in paths::files(folder, &["deb"])? {
        step.run(cmd("dpkg -x").arg(&file).arg(folder))?;
        fs::remove_file(file)?;
    }
    Ok(())
}

/// Returns apt-get with the privilege to install packages.
fn apt_get() -> Result<Command> {
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
