//! The command line `zstn`.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run()
}
