//! The program `zstn`; the library contains the command line.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: zstn::allocator::HugePageAllocator = zstn::allocator::HugePageAllocator;

fn main() -> ExitCode {
    ExitCode::from(zstn_cli::run(None, std::env::args_os().skip(1)))
}
