//! Runs one stage of packing or reading once, for a profiler that counts only the
//! instructions of [`counted`]:
//!
//! ```sh
//! target/release/stage --list
//! valgrind --tool=callgrind --toggle-collect='stage::counted*' target/release/stage 'file: pack'
//! ```
//!
//! It prints the number of bytes that the stage processed.

use std::process::ExitCode;

use zstn_bench::Work;

/// Length of a tensor in bytes: several blocks of most planes, yet short enough for a
/// profiler.
const TENSOR_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    let stages = zstn_bench::all();
    let wanted = std::env::args().nth(1);
    if wanted.as_deref() == Some("--list") {
        for stage in &stages {
            println!("{stage}");
        }
        return ExitCode::SUCCESS;
    }
    let mut found = stages
        .iter()
        .filter(|stage| wanted.as_deref() == Some(stage.name()));
    let Some(stage) = found.next() else {
        eprintln!("name a stage that --list lists");
        return ExitCode::FAILURE;
    };
    let mut work = stage.prepare(TENSOR_BYTES);
    // State that is created on first use, such as the contexts of C zstd, is not part
    // of the stage.
    work.run();
    counted(&mut work);
    println!("{}", work.len_bytes());
    ExitCode::SUCCESS
}

#[inline(never)]
fn counted(work: &mut Work) {
    work.run();
}
