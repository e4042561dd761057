//! Files in the repositories of a model hub, such as Hugging Face.

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod file;
#[cfg(feature = "http")]
mod login;
pub mod offline;
#[cfg(feature = "http")]
mod repository;

use std::env;

#[cfg(feature = "http")]
pub(super) use address::HubAddress;
#[cfg(feature = "http")]
pub(super) use file::HubFile;
#[cfg(feature = "http")]
pub(super) use login::Login;
#[cfg(feature = "http")]
pub use repository::{RepoKind, Repository};

/// The hub that is used by default.
const ENDPOINT: &str = "https://huggingface.co";

/// Returns the address of the hub for this process, `$HF_ENDPOINT`, without a trailing
/// slash.
pub(super) fn endpoint() -> String {
    let set = env::var("HF_ENDPOINT").unwrap_or_default();
    without_slash(if set.is_empty() { ENDPOINT } else { &set }).into()
}

pub(super) fn without_slash(endpoint: &str) -> &str {
    endpoint.trim_end_matches('/')
}
