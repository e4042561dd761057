//! `zstn man`

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use zstn::internals::Output;
use zstn::{Error, Result};

use super::command;
use super::stdout::Stdout;

#[derive(Args)]
pub struct Options {
    /// Write a page for zstn and one for every verb to this folder, such as
    /// /usr/local/share/man/man1
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let mut all = command();
    all.build();
    let Some(folder) = &options.output else {
        let mut out = Stdout::new();
        out.bytes(&page(&all)?)?;
        return out.finish();
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::io(format!("make the folder {}", folder.display()), error))?;
    write(&all, folder)
}

/// Writes the pages of a command and of its subcommands. Existing pages are
/// overwritten, as by any installer.
fn write(command: &Command, folder: &std::path::Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut output = Output::create(&folder.join(format!("{name}.1")))?;
    output.write(&page(command)?)?;
    output.finish()?;
    let verbs = command.get_subcommands();
    verbs
        .filter(|verb| verb.get_name() != "help")
        .try_for_each(|verb| write(verb, folder))
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| Error::io("write the manual page", error))?;
    Ok(page)
}
