//! `zstn lfs install` and `uninstall`

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use zstn::{Error, Location, Result};
use zstn_hub::lfs::settings::{self, Scope};
use zstn_hub::lfs::{Repository, Store};

use super::super::arguments;
use super::super::network::Certificates;
use super::super::pack::Extended;
use super::super::say;
use super::super::stdout::print;
use super::super::table::print_facts;
use super::{ScopeOptions, describe};

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
pub struct Options {
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
pub struct UninstallOptions {
    #[command(flatten)]
    scope: ScopeOptions,
}

pub fn run(options: &Options) -> Result<()> {
    let scope = options.scope.scope();
    let extended = options.extended.is_set();
    options.certificates.trust()?;
    check_place(scope)?;
    let program = settings::own_program()?;
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

pub fn uninstall(options: &UninstallOptions) -> Result<()> {
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
    match needs_repository && Repository::find()?.is_none() {
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
