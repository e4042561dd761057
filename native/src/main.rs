//! The command line `zstn`.

// These macros panic if the pipe is closed; `cli::say` and `cli::stdout` do not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::process::ExitCode;

mod cli;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: zstn::allocator::HugePageAllocator = zstn::allocator::HugePageAllocator;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    zstn::allocator::retain_freed();
    cli::run()
}
