//! The command line `zstn`.

use std::process::ExitCode;

mod cli;
#[cfg(target_os = "linux")]
mod huge_pages;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: huge_pages::HugePages = huge_pages::HugePages;

fn main() -> ExitCode {
    cli::run()
}
