//! Serves the cases of `tests/faults/server.json` to suites in other languages.

use std::io::{stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match zstn_tests::faults::server::run(stdin().lock(), stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fault-server: {error}");
            ExitCode::FAILURE
        }
    }
}
