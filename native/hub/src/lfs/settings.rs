//! The entries in git's configuration that make git-lfs use this program.
//!
//! git-lfs ignores these entries in a repository's `.lfsconfig`, so every clone has to
//! be configured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::git_repository::git;
use super::store::Store;
use zstn::{Error, Result};

/// The name of the agent and of the extension. Servers recognise the agent by it.
pub const NAME: &str = "zstn";

const AGENT: &str = "lfs.customtransfer.zstn";
const EXTENSION: &str = "lfs.extension.zstn";
const STANDALONE: &str = "lfs.standalonetransferagent";

/// Matches all entries of the agent, the extension and `standalonetransferagent`, for
/// every address.
const OWN: &str = r"^lfs\.((customtransfer|extension)\.zstn\..*|(.*\.)?standalonetransferagent)$";

/// A scope of git's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The current repository.
    #[default]
    Local,
    /// The current worktree.
    Worktree,
    /// The current user.
    Global,
    /// The whole machine.
    System,
}

impl Scope {
    /// Returns the option of `git config` that selects the scope.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Local => "--local",
            Self::Worktree => "--worktree",
            Self::Global => "--global",
            Self::System => "--system",
        }
    }
}

/// An entry of git's configuration that concerns this program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The key, such as `lfs.customtransfer.zstn.path`.
    pub key: String,
    /// The value.
    pub value: String,
    /// The scope that contains the entry: `local`, `global`, …
    pub scope: String,
}

/// Installs the transfer agent `program`.
///
/// With a store, git-lfs contacts no server and passes all objects to the agent, either
/// of every remote or only of the git-lfs server at `url`. Without a store, the agent
/// is used where a server supports it. The agent also trusts the certificates in the
/// PEM file `certificates`. With `extended`, it writes extension frames.
///
/// # Errors
/// If a path is not Unicode, or git refuses the change.
pub fn install_agent(
    scope: Scope,
    program: &Path,
    store: Option<&Store>,
    url: Option<&str>,
    certificates: Option<&Path>,
    extended: bool,
) -> Result<()> {
    let mut arguments = String::from("lfs agent");
    if let Some(file) = certificates {
        arguments += &format!(" --ca-certificate {}", quoted(text(file)?));
    }
    if extended {
        arguments += " --extended";
    }
    if let Some(store) = store {
        arguments += &format!(" --store {}", quoted(&store.to_string()));
    }
    uninstall_agent(scope)?;
    set(scope, &format!("{AGENT}.path"), text(program)?)?;
    set(scope, &format!("{AGENT}.args"), &arguments)?;
    // One agent uses all threads, so git-lfs must not start several.
    set(scope, &format!("{AGENT}.concurrent"), "false")?;
    match (store, url) {
        (None, _) => Ok(()),
        (Some(_), None) => set(scope, STANDALONE, NAME),
        (Some(_), Some(url)) => set(scope, &format!("lfs.{url}.standalonetransferagent"), NAME),
    }
}

/// Installs the filter of `program` as a git-lfs extension. With `extended`, it writes
/// extension frames.
///
/// # Errors
/// [`Error::Usage`] if the path of the program contains a space, where git-lfs would
/// split the command; if git refuses the change.
pub fn install_filter(scope: Scope, program: &Path, extended: bool) -> Result<()> {
    let program = text(program)?;
    if program.contains(' ') {
        return Err(Error::Usage(format!(
            "the path of this program, {program}, contains a space, and git-lfs cuts the commands \
             of extensions at spaces; call it by a link without one"
        )));
    }
    let option = if extended { " --extended" } else { "" };
    for (direction, option) in [("clean", option), ("smudge", "")] {
        let command = format!("{program} lfs filter {direction}{option} -- %f");
        set(scope, &format!("{EXTENSION}.{direction}"), &command)?;
    }
    set(scope, &format!("{EXTENSION}.priority"), "0")
}

/// Removes the agent and the filter from a scope. Returns whether they were installed.
///
/// # Errors
/// If git refuses the change.
pub fn uninstall(scope: Scope) -> Result<bool> {
    let is_installed = list_in(Some(scope))?.iter().any(is_own);
    uninstall_agent(scope)?;
    remove_section(scope, EXTENSION)?;
    Ok(is_installed)
}

/// Returns the entries of all scopes in the order of precedence, the strongest last.
///
/// # Errors
/// If git cannot be started.
pub fn list() -> Result<Vec<Setting>> {
    let mut settings = list_in(None)?;
    settings.retain(is_own);
    Ok(settings)
}

/// Returns the path of the running program. A path in `PATH` that leads to it is
/// preferred, because the target of a link may disappear in an update.
///
/// # Errors
/// If the system does not report the running program.
pub fn own_program() -> Result<PathBuf> {
    let fail = |error| Error::io("find the path of this program", error);
    let own = std::env::current_exe().map_err(fail)?;
    let resolved = own.canonicalize().map_err(fail)?;
    let name = own.file_name().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.canonicalize().is_ok_and(|to| to == resolved));
    Ok(found.unwrap_or(own))
}

fn is_own(setting: &Setting) -> bool {
    !setting.key.ends_with("standalonetransferagent") || setting.value == NAME
}

fn uninstall_agent(scope: Scope) -> Result<()> {
    for setting in list_in(Some(scope))?
        .iter()
        .filter(|setting| is_own(setting))
    {
        if setting.key.ends_with("standalonetransferagent") {
            config(scope, &["--unset-all", &setting.key])?;
        }
    }
    remove_section(scope, AGENT)
}

fn remove_section(scope: Scope, section: &str) -> Result<()> {
    let prefix = format!("{section}.");
    let settings = list_in(Some(scope))?;
    match settings
        .iter()
        .any(|setting| setting.key.starts_with(&prefix))
    {
        true => config(scope, &["--remove-section", section]),
        false => Ok(()),
    }
}

fn set(scope: Scope, key: &str, value: &str) -> Result<()> {
    config(scope, &["--replace-all", key, value])
}

/// Runs `git config` with arguments. An error contains git's message.
fn config(scope: Scope, arguments: &[&str]) -> Result<()> {
    let output = Command::new("git")
        .args(["config", scope.option()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::io("start git", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("fatal: ");
    let said = said.trim_start_matches("error: ");
    Err(Error::Usage(format!(
        "git refuses to change its configuration ({}): {said}",
        scope.option()
    )))
}

fn list_in(scope: Option<Scope>) -> Result<Vec<Setting>> {
    let mut arguments = vec!["config", "--null", "--show-scope"];
    arguments.extend(scope.map(Scope::option));
    arguments.extend(["--get-regexp", OWN]);
    let text = git(arguments)?.unwrap_or_default();
    let text = text.to_string_lossy();
    let mut settings = Vec::new();
    let mut fields = text.split('\0');
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        settings.push(Setting {
            key: key.into(),
            value: value.into(),
            scope: scope.into(),
        });
    }
    Ok(settings)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::Usage(format!(
            "the path {} is not Unicode, and git-lfs takes no other",
            path.display()
        ))
    })
}

/// Quotes a text as a single shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
