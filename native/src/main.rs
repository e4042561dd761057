//! The command line `zstn`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod allocator;
mod cli;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: allocator::Advised = allocator::Advised;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    allocator::keep_freed();
    cli::run()
}
