//! `HF_HUB_OFFLINE`, a setting of the hub's own tools that forbids requests to the hub.

use std::env;

use crate::{Error, Result};

/// The environment variables that forbid requests to the hub, as in `huggingface_hub`.
const VARIABLES: [&str; 2] = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];

/// Refuses to read or write `what` if this process may not send requests to a hub.
///
/// # Errors
/// [`Error::Usage`] if a variable forbids it.
pub fn check(what: &str) -> Result<()> {
    let is_set = |name: &&&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    // The first variable that is set decides.
    match VARIABLES.iter().find(is_set).filter(|name| is_true(name)) {
        None => Ok(()),
        Some(name) => Err(Error::Usage(format!(
            "{what} cannot be reached, since {name} is set; unset it, or name a local file"
        ))),
    }
}

/// Returns whether a variable is set to a word that the hub's own tools accept as true.
pub(super) fn is_true(name: &str) -> bool {
    let value = env::var(name).unwrap_or_default().to_ascii_uppercase();
    ["1", "ON", "YES", "TRUE"].contains(&value.as_str())
}
