//! `zstn lfs filter`

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use zstn::Result;
use zstn_hub::lfs;

use super::super::arguments::{Memory, Threads};
use super::super::pack::Extended;
use super::super::stdout::RawStdout;
use super::super::terminal;

#[derive(Args)]
pub struct Options {
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

pub fn run(options: &Options) -> Result<()> {
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
