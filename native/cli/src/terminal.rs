//! Preventing binary output to a terminal.

use std::io::IsTerminal;

use zstn::{Error, Result};

/// Refuses to write binary data to standard output if it is a terminal, unless
/// `--force` is given. Call this before the work begins.
pub fn refuse_binary(force: bool) -> Result<()> {
    if force || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Error::Usage(
        "standard output is a terminal, and this would write binary data to it; redirect it, or \
         name a file with -o"
            .into(),
    ))
}
