//! `zstn lfs`: git-lfs with packed objects (docs/git-lfs.md).

use clap::{Args, Subcommand};
use zstn::Result;
use zstn_hub::lfs::settings::Scope;

mod agent;
mod filter;
mod install;
mod status;

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
    Install(install::Options),
    /// Undo install
    Uninstall(install::UninstallOptions),
    /// Show what is installed
    Status(status::Options),
    /// Transfer objects (started by git-lfs)
    Agent(agent::Options),
    /// Pack or unpack one file from standard input (started by git-lfs)
    Filter(filter::Options),
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
        Verb::Install(options) => install::run(options),
        Verb::Uninstall(options) => install::uninstall(options),
        Verb::Status(options) => status::run(options),
        Verb::Agent(options) => agent::run(options),
        Verb::Filter(options) => filter::run(options),
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
