//! `zstn manual`: man pages and completions, for those who package the program.
//! It is hidden, since it says nothing that `--help` does not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use zstn::{Error, Result};

use super::Cli;

#[derive(Args)]
pub struct Options {
    /// Folder to write share/man/man1 and the completions of each shell to
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// The shells with completions, the folder where each looks for them, and the name there.
const SHELLS: [(Shell, &str, &str); 4] = [
    (Shell::Bash, "share/bash-completion/completions", "zstn"),
    (Shell::Zsh, "share/zsh/site-functions", "_zstn"),
    (Shell::Fish, "share/fish/vendor_completions.d", "zstn.fish"),
    (Shell::PowerShell, "share/powershell", "zstn.ps1"),
];

pub fn run(options: &Options) -> Result<()> {
    let failed = |source| {
        let action = format!("writing the manual to {}", options.folder.display());
        Error::io(action, source)
    };
    let pages = options.folder.join("share/man/man1");
    fs::create_dir_all(&pages).map_err(failed)?;
    // Hidden ones get no page, and `help` would get one for each verb.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &pages).map_err(failed)?;
    for (shell, folder, name) in SHELLS {
        complete(shell, &options.folder.join(folder), name).map_err(failed)?;
    }
    Ok(())
}

fn complete(shell: Shell, folder: &Path, name: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zstn", &mut text);
    fs::write(folder.join(name), text)
}
