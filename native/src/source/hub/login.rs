//! Finds the user's access token where the hub's own tools store it.

use std::path::PathBuf;
use std::{env, fmt, io};

use super::offline::is_true;
use crate::source::regular;
use crate::{Error, Result};

/// The access token for a hub.
#[derive(Clone)]
pub(in super::super) enum Login {
    /// The token, from the environment or a file.
    Token(String),
    /// No token was found.
    None,
    /// No token may be sent, because `HF_HUB_DISABLE_IMPLICIT_TOKEN` is set.
    Disabled,
}

/// Hides the token.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::None => "None",
            Self::Disabled => "Disabled",
        })
    }
}

impl Login {
    /// Returns the token of `$HF_TOKEN` or, if that is not set, of the older
    /// `$HUGGING_FACE_HUB_TOKEN`; without either, the token in the file that
    /// `hf auth login` writes. This file is `$HF_TOKEN_PATH`, or `token` in `$HF_HOME`,
    /// which defaults to `huggingface` in the folder for caches.
    ///
    /// # Errors
    /// A token file that exists but cannot be read.
    pub(in super::super) fn of_process() -> Result<Self> {
        if is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            return Ok(Self::Disabled);
        }
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN"));
        if let Some(token) = token.as_deref().and_then(cleaned) {
            return Ok(Self::Token(token));
        }
        let Some(path) = path() else {
            return Ok(Self::None);
        };
        match regular::read(&path) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                Ok(cleaned(&text).map_or(Self::None, Self::Token))
            }
            Err(error) if is_missing(&error) => Ok(Self::None),
            Err(error) => Err(Error::io(
                format!("read the token for the hub in {}", path.display()),
                error,
            )),
        }
    }

    /// Returns the login with `token`, or [`Login::None`] if the token is missing or
    /// empty.
    pub(in super::super) fn of(token: Option<&str>) -> Self {
        token.and_then(cleaned).map_or(Self::None, Self::Token)
    }

    pub(in super::super) fn token(&self) -> Option<&str> {
        match self {
            Self::Token(token) => Some(token),
            Self::None | Self::Disabled => None,
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Returns the token in a text; `None` if it is empty.
fn cleaned(text: &str) -> Option<String> {
    let token = text.trim();
    (!token.is_empty()).then(|| token.into())
}

/// Returns the path of the token file.
fn path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let home = env::home_dir();
    let expanded = |value: std::ffi::OsString| {
        let path = PathBuf::from(value);
        match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path,
        }
    };
    if let Some(path) = set("HF_TOKEN_PATH") {
        return Some(expanded(path));
    }
    let folder = set("HF_HOME").map(expanded).or_else(|| {
        let caches = set("XDG_CACHE_HOME").map(expanded);
        let caches = caches.or_else(|| Some(home.as_ref()?.join(".cache")));
        Some(caches?.join("huggingface"))
    });
    Some(folder?.join("token"))
}
