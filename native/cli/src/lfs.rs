//! `zstn lfs`: git-lfs with packed objects (docs/git-lfs.md).

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use zstn::{Error, Location, Result};
use zstn_hub::lfs::settings::{self, Scope, Setting};
use zstn_hub::lfs::{self, Agent, GitRepository, Store};

use super::arguments::{self, Memory, Threads};
use super::network::Certificates;
use super::pack::Extended;
use super::say;
use super::table::{self, print_facts};
use super::terminal::{self, RawStdout, print};

const DETAILS: &str = "\
git-lfs starts the agent and the filter by itself; a person runs install, status
and uninstall. docs/git-lfs.md explains when to use which.";

#[derive(Args)]
#[command(after_help = DETAILS)]
pub struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make git-lfs keep packed objects in a store or on a server that supports them
    Install(InstallOptions),
    /// Undo install
    Uninstall(UninstallOptions),
    /// Show what is installed
    Status(StatusOptions),
    /// Transfer objects (started by git-lfs)
    Agent(AgentOptions),
    /// Pack or unpack one file from standard input (started by git-lfs)
    Filter(FilterOptions),
}

impl Options {
    pub fn json(&self) -> bool {
        match &self.verb {
            Verb::Status(options) => options.json,
            _ => false,
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    match &options.verb {
        Verb::Install(options) => install(options),
        Verb::Uninstall(options) => uninstall(options),
        Verb::Status(options) => status(options),
        Verb::Agent(options) => agent(options),
        Verb::Filter(options) => filter(options),
    }
}

/// The scope of git's configuration that is changed.
#[derive(Args, Clone, Copy)]
#[group(multiple = false)]
struct ScopeOptions {
    /// Change the current repository (default)
    #[arg(long)]
    local: bool,
    /// Change the current worktree
    #[arg(long)]
    worktree: bool,
    /// Change every repository of this user
    #[arg(long)]
    global: bool,
    /// Change every repository on this machine
    #[arg(long)]
    system: bool,
}

impl ScopeOptions {
    fn scope(self) -> Scope {
        match self {
            Self { worktree: true, .. } => Scope::Worktree,
            Self { global: true, .. } => Scope::Global,
            Self { system: true, .. } => Scope::System,
            _ => Scope::Local,
        }
    }
}

/// Returns a description of the repositories in a scope.
fn describe(scope: Scope) -> &'static str {
    match scope {
        Scope::Local => "this repository",
        Scope::Worktree => "this worktree",
        Scope::Global => "every repository of this user",
        Scope::System => "every repository on this machine",
    }
}

/// The consequences of the filter, printed when it is installed.
const FILTER_MEANS: &str = "\
The filter packs what git-lfs stores, so any git-lfs server will do. It also means:
- The pointers of packed files name the extension \"zstn\". A clone without it cannot
  check out anything: git-lfs stops with \"extension 'zstn' is not configured\".
- Sizes and digests in pointers are those of packed files; web pages show them so.
- In a clone made with GIT_LFS_SKIP_SMUDGE=1, run `git lfs pull` before `git add`.
- `git lfs dedup` and `git lfs pointer` do not work with extensions.
With a store or a server of your own, `zstn lfs install` without --filter has none of
these effects.";

#[derive(Args)]
struct InstallOptions {
    #[command(flatten)]
    scope: ScopeOptions,
    /// Store objects in this folder or object store (s3://bucket/folder, az://, gs://)
    /// without a server. Otherwise, packed objects are sent to a git-lfs server that
    /// supports them
    #[arg(long, value_name = "LOCATION", value_parser = arguments::location())]
    store: Option<Location>,
    /// Use the store only for the git-lfs server at this address
    #[arg(long, value_name = "URL", requires = "store")]
    url: Option<String>,
    /// Install the filter instead, for a server that you do not control; read the
    /// printed notes
    #[arg(long, conflicts_with_all = ["store", "ca_certificate"])]
    filter: bool,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    extended: Extended,
}

#[derive(Args)]
struct UninstallOptions {
    #[command(flatten)]
    scope: ScopeOptions,
}

fn install(options: &InstallOptions) -> Result<()> {
    let scope = options.scope.scope();
    let extended = options.extended.is_set();
    options.certificates.trust()?;
    check_place(scope)?;
    let program = program()?;
    let shown = program.display().to_string();
    let target = describe(scope).to_owned();
    if options.filter {
        settings::install_filter(scope, &program, extended)?;
        print_facts(&[("filter for", target), ("program", shown)])?;
        FILTER_MEANS.lines().for_each(|line| say!("{line}"));
        warn_without_git_lfs();
        return Ok(());
    }
    let store = options.store.as_ref().map(open_store).transpose()?;
    let url = options.url.as_deref();
    // Agents run in other folders, so the path has to be absolute.
    let certificates = options.certificates.ca_certificate.as_deref();
    let certificates = certificates.map(absolute).transpose()?;
    settings::install_agent(
        scope,
        &program,
        store.as_ref(),
        url,
        certificates.as_deref(),
        extended,
    )?;
    let place = match (&store, &options.url) {
        (None, _) => "a git-lfs server that knows the agent \"zstn\"".into(),
        (Some(store), None) => store.to_string(),
        (Some(store), Some(url)) => {
            format!("{store}, instead of {}", zstn::display::address(url))
        }
    };
    print_facts(&[
        ("agent for", target),
        ("program", shown),
        ("objects in", place),
    ])?;
    if store.is_some() && options.url.is_none() && scope != Scope::Local {
        say!(
            "note: from now on git-lfs uses this store for {} and asks no server",
            describe(scope)
        );
    }
    warn_without_git_lfs();
    Ok(())
}

/// Returns the path of the file that starts this command line.
fn program() -> Result<PathBuf> {
    let Some(script) = super::script() else {
        return settings::own_program();
    };
    match script.is_file() {
        true => absolute(script),
        false => Err(Error::Usage(format!(
            "git-lfs has to start zstn, and there is no program {}",
            script.display()
        ))),
    }
}

fn uninstall(options: &UninstallOptions) -> Result<()> {
    let scope = options.scope.scope();
    check_place(scope)?;
    print(match settings::uninstall(scope)? {
        true => format!("removed from the settings of {}", describe(scope)),
        false => format!("nothing is installed for {}", describe(scope)),
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let fail = |error| Error::io(format!("find {}", path.display()), error);
    std::path::absolute(path).map_err(fail)
}

/// Returns the store at a location. The folder of a store is created only here, where a
/// user sees the message.
fn open_store(location: &Location) -> Result<Store> {
    let location = match location {
        Location::Path(path) => {
            let fail = |error| Error::io(format!("create the store {}", path.display()), error);
            let is_new = !path.exists();
            std::fs::create_dir_all(path).map_err(fail)?;
            if is_new {
                say!("created {}", path.display());
            }
            // Agents run in other folders, so the path has to be absolute.
            Location::Path(path.canonicalize().map_err(fail)?)
        }
        location => location.clone(),
    };
    let store = Store::new(&location)?;
    store.check_folder()?;
    Ok(store)
}

/// Refuses a scope that needs a repository if there is none.
fn check_place(scope: Scope) -> Result<()> {
    let needs_repository = matches!(scope, Scope::Local | Scope::Worktree);
    match needs_repository && GitRepository::find()?.is_none() {
        true => Err(Error::Usage(
            "this folder is not in a git repository; go to one, or use --global".into(),
        )),
        false => Ok(()),
    }
}

fn warn_without_git_lfs() {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !git(&["lfs", "version"]) {
        say!("warning: git-lfs is not installed; get it from https://git-lfs.com");
    } else if !git(&["config", "--get", "filter.lfs.process"]) {
        say!("warning: git-lfs is not set up; run `git lfs install`");
    }
}

#[derive(Args)]
struct StatusOptions {
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

fn status(options: &StatusOptions) -> Result<()> {
    let settings = settings::list()?;
    let repository = GitRepository::find()?;
    let log = repository
        .as_ref()
        .map(GitRepository::filter_log)
        .transpose()?;
    let log = log.filter(|log| log.is_file());
    if options.json {
        return print(json!({
            "settings": settings.iter().map(setting_json).collect::<Vec<_>>(),
            "filter_log": log,
        }));
    }
    if settings.is_empty() {
        return print("nothing is installed here; run `zstn lfs install`");
    }
    table::print(["SCOPE", "SETTING", "VALUE"], || {
        settings.iter().map(|setting| {
            [
                Cow::Borrowed(&*setting.scope),
                Cow::Borrowed(&*setting.key),
                Cow::Borrowed(&*setting.value),
            ]
        })
    })?;
    warn(&settings);
    if let Some(log) = log {
        say!("note: errors of the filter are in {}", log.display());
    }
    if let Some(file) = repository.and_then(|repository| repository.lfsconfig())
        && std::fs::read_to_string(&file).is_ok_and(|text| text.contains("customtransfer"))
    {
        say!(
            "warning: git-lfs ignores the transfer agents in {}; run `zstn lfs install` in every \
             clone instead",
            file.display()
        );
    }
    Ok(())
}

fn setting_json(setting: &Setting) -> serde_json::Value {
    json!({"scope": setting.scope, "key": setting.key, "value": setting.value})
}

/// Prints a warning for an installed program that no longer exists.
fn warn(settings: &[Setting]) {
    for setting in settings {
        let program = match &*setting.key {
            "lfs.customtransfer.zstn.path" => &*setting.value,
            "lfs.extension.zstn.clean" => setting.value.split(' ').next().unwrap_or_default(),
            _ => continue,
        };
        if program.contains(std::path::is_separator) && !Path::new(program).is_file() {
            say!("warning: {program} does not exist; run `zstn lfs install` again");
        }
    }
}

#[derive(Args)]
struct AgentOptions {
    /// Store objects in this folder or object store
    #[arg(long, value_name = "LOCATION", value_parser = arguments::location())]
    store: Option<Location>,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    extended: Extended,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
}

fn agent(options: &AgentOptions) -> Result<()> {
    options.certificates.trust()?;
    let mut agent = Agent::new(&options.threads.engine()?).extended(options.extended.is_set());
    if let Some(location) = &options.store {
        agent = agent.store(Store::new(location)?);
    }
    let agent = options.memory.add_to(agent, Agent::memory_bytes);
    agent.run(std::io::stdin().lock(), std::io::stdout())
}

#[derive(Args)]
struct FilterOptions {
    /// Direction: clean packs, smudge unpacks
    #[arg(value_enum)]
    direction: Direction,
    /// Name of the file, for messages
    #[arg(value_name = "FILE", default_value = "standard input")]
    name: OsString,
    #[command(flatten)]
    extended: Extended,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
}

#[derive(Clone, Copy, ValueEnum)]
enum Direction {
    Clean,
    Smudge,
}

fn filter(options: &FilterOptions) -> Result<()> {
    terminal::refuse_binary(false)?;
    let direction = match options.direction {
        Direction::Clean => lfs::Direction::Clean,
        Direction::Smudge => lfs::Direction::Smudge,
    };
    let filter = lfs::Filter::new(&options.threads.engine()?).extended(options.extended.is_set());
    let filter = options.memory.add_to(filter, lfs::Filter::memory_bytes);
    let name = options.name.to_string_lossy();
    let (from, to) = (std::io::stdin().lock(), RawStdout);
    filter.run(direction, &name, from, to)
}
