//! A terminal is no place for binary data.

use std::io::IsTerminal;
use std::path::Path;

use zstn::{Error, Result};

/// Refuses `target` if it is `-` and standard output is a terminal, for verbs
/// that are about to write binary data there. To be called before the work
/// begins. `force` is what the person says, where the verb has `--force`.
pub fn refuse_binary(target: &Path, force: bool) -> Result<()> {
    if target.as_os_str() != "-" || force || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Error::Usage(
        "standard output is a terminal, and this would write binary data to it; redirect it, or \
         name a file with -o"
            .into(),
    ))
}
