//! `zstn completions`

use clap::Args;
use clap_complete::Shell;
use zstn::Result;

use super::command;
use super::stdout::Stdout;

#[derive(Args)]
pub struct Options {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(options: &Options) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command(), "zstn", &mut script);
    let mut out = Stdout::new();
    out.bytes(&script)?;
    out.finish()
}
