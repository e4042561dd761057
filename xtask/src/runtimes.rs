//! The npm package in its users' JavaScript runtimes and bundlers. The ones on npm are
//! installed in a separate folder; Firefox and WebKitGTK come from the distribution.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::fresh::Stamp;
use crate::step::{Report, Step};
use crate::tier::Tier;
use crate::workspace::Workspace;
use crate::{apt, chromium, counts, node, node_tests, process, programs, wasm};

/// The first version with all WebDriver BiDi commands that playwright uses.
const MIN_FIREFOX: u32 = 143;
const FIREFOX: &[&str] = &["firefox-esr", "firefox"];
const WEBKIT_DRIVER: &str = "WebKitWebDriver";
const DISPLAY: &str = "Xvfb";
/// Debian packages of the programs above.
const PACKAGES: &[&str] = &["firefox-esr", "webkit2gtk-driver", "xvfb"];

/// Files that list the npm packages.
const MANIFEST: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Runs the verb `runtimes`, which builds the package and only runs these tests.
pub fn run(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    let chromium = report.step("Chromium", chromium::ready)?;
    let runtimes = Runtimes::ready(workspace, report)?;
    wasm::build(workspace, report)?;
    report.step("page", |step| wasm::page(workspace, step))?;
    report.step("programs", |step| programs::build_all(workspace, step))?;
    runtimes.test(workspace, report, &chromium)
}

/// The installed runtimes.
pub struct Runtimes {
    firefox: PathBuf,
}

impl Runtimes {
    /// Installs the runtimes.
    pub fn ready(workspace: &Workspace, report: &Report) -> Result<Self> {
        let firefox = report.step("Firefox and WebKitGTK", browsers)?;
        report.step("Deno, Bun, workerd and bundlers", |step| {
            packages(workspace, step)
        })?;
        Ok(Self { firefox })
    }

    /// Tests the packed npm package in all of them, then the viewer and the package in
    /// Firefox. Installing takes a minute, the first step one or two minutes on two
    /// cores.
    pub fn test(&self, workspace: &Workspace, report: &Report, chromium: &Path) -> Result<()> {
        for (title, script) in [
            ("runtimes and bundlers", "test:runtimes"),
            ("tests in Firefox", "test:firefox"),
        ] {
            report.step(title, |step| {
                let mut npm = node_tests::npm(workspace, script);
                npm.env("ZSTN_RUNTIMES", workspace.cache("runtimes"))
                    .env("CHROMIUM", chromium)
                    .env("FIREFOX", &self.firefox)
                    .env_remove("ZSTN_SKIP_BROWSER");
                step.run(Tier::All.apply(&mut npm))?;
                counts::note(step)
            })?;
        }
        Ok(())
    }
}

fn browsers(step: &mut Step) -> Result<PathBuf> {
    let installed = || {
        let webkit = [WEBKIT_DRIVER, DISPLAY];
        let has_webkit = webkit.iter().all(|name| process::find(name).is_some());
        firefox().filter(|firefox| has_webkit && is_recent(firefox))
    };
    if installed().is_none() {
        let why = "the npm package and the viewer are tested in them";
        // Outdated package lists name an old Firefox, whose package may still exist.
        apt::update(step).with_context(instructions)?;
        apt::install(step, PACKAGES, why).with_context(instructions)?;
    }
    let Some(firefox) = installed() else {
        bail!(instructions());
    };
    step.note(firefox.display().to_string());
    Ok(firefox)
}

fn firefox() -> Option<PathBuf> {
    let named = env::var_os("FIREFOX").filter(|named| !named.is_empty());
    named
        .map(PathBuf::from)
        .or_else(|| FIREFOX.iter().find_map(|name| process::find(name)))
}

/// Returns whether this Firefox is at least version [`MIN_FIREFOX`].
fn is_recent(firefox: &Path) -> bool {
    let version = process::ask(Command::new(firefox).arg("--version"));
    let major = version.ok().and_then(|text| {
        // The output has the form "Mozilla Firefox 153.7.0esr".
        text.split_whitespace()
            .last()?
            .split('.')
            .next()?
            .parse::<u32>()
            .ok()
    });
    major.is_some_and(|major| major >= MIN_FIREFOX)
}

fn instructions() -> String {
    format!(
        "Firefox {MIN_FIREFOX} or later, WebKitGTK's WebDriver or Xvfb is missing. Do one of these, \
         then try again:\n\
         \n    {}   (Debian)\n    cargo xtask test --all --skip runtimes   (without these tests)\n",
        apt::by_hand(PACKAGES)
    )
}

/// Installs the packages of the lock file in a separate folder. They are not part of
/// the workspace, because they would add 1.3 GB to its `node_modules`. `npm ci` is not
/// used, because it refuses a lock file that lacks the builds for other systems, and
/// lock files written with some registries lack them.
fn packages(workspace: &Workspace, step: &mut Step) -> Result<()> {
    let folder = workspace.cache("runtimes");
    let inputs = MANIFEST.map(|name| workspace.path(&format!("tests/runtimes/{name}")));
    let installed = folder.join("node_modules/.package-lock.json");
    let stamp = Stamp::new(workspace, "npm-runtimes", &inputs, &[installed])?;
    if stamp.is_fresh() {
        step.note("unchanged");
        return Ok(());
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    for (from, name) in inputs.iter().zip(MANIFEST) {
        fs::copy(from, folder.join(name))
            .with_context(|| format!("{} cannot be copied", from.display()))?;
    }
    step.run_twice(|| {
        let mut command = node::npm();
        command
            .args(["install", "--no-audit", "--no-fund"])
            .current_dir(&folder);
        command
    })?;
    stamp.save()
}
