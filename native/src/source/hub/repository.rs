//! The repositories of a model hub, and their names.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Maximum length of an owner's or repository's name, in bytes.
const MAX_NAME_BYTES: usize = 96;

/// The type of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RepoKind {
    /// A model.
    Model,
    /// A data set.
    Dataset,
    /// An application.
    Space,
    /// Code that runs on GPUs.
    Kernel,
}

impl RepoKind {
    const ALL: [Self; 4] = [Self::Model, Self::Dataset, Self::Space, Self::Kernel];

    /// Returns the type with this singular name, such as `model`, as used in
    /// notifications.
    #[must_use]
    pub fn of_singular(name: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.plural().strip_suffix('s') == Some(name))
    }

    /// Returns the type with this plural name, such as `models`, as used in addresses.
    #[must_use]
    pub fn of_plural(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == name)
    }

    /// Returns the plural name.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
            Self::Kernel => "kernels",
        }
    }
}

/// A repository. It displays as in the hub's addresses: as `OWNER/NAME` for a model, and
/// with the plural name of its type for others, as in `datasets/OWNER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    kind: RepoKind,
    name: String,
}

impl Repository {
    /// Returns the repository with the name `OWNER/NAME`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that a hub does not allow.
    pub fn new(kind: RepoKind, name: &str) -> Result<Self> {
        let parts = name.split_once('/');
        parts
            .and_then(|(owner, name)| Self::of_parts(kind, &[owner, name]))
            .ok_or_else(|| {
                Error::Usage(format!(
                    "{name:?} is not a repository; its name has to be OWNER/NAME"
                ))
            })
    }

    /// Returns the repository with an owner and a name, or with the name of an old model
    /// that has no owner. Returns `None` for names that a hub does not allow.
    #[must_use]
    pub fn of_parts(kind: RepoKind, parts: &[&str]) -> Option<Self> {
        let is_valid = (1..=2).contains(&parts.len()) && parts.iter().all(|part| is_name(part));
        is_valid.then(|| Self {
            kind,
            name: parts.join("/"),
        })
    }

    /// Returns the type.
    #[must_use]
    pub fn kind(&self) -> RepoKind {
        self.kind
    }

    /// Returns `OWNER/NAME`, or the name of an old model that has no owner.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the `hf://` address of a file in `revision`.
    #[must_use]
    pub fn file_url(&self, revision: &str, path: &str) -> String {
        let revision = revision.replace('/', "%2F");
        format!("hf://{self}@{revision}/{path}")
    }

    /// Returns the path of the repository in the hub's API.
    #[must_use]
    pub fn api(&self) -> String {
        format!("/api/{}/{}", self.kind.plural(), self.name)
    }

    /// Returns the path of the git repository.
    #[must_use]
    pub fn git(&self) -> String {
        format!("/{self}.git")
    }

    /// Returns a file name that is unique to this repository.
    #[must_use]
    pub fn file_name(&self) -> String {
        let name = self.name.replace('/', "+");
        format!("{}+{name}", self.kind.plural())
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RepoKind::Model => f.write_str(&self.name),
            kind => write!(f, "{}/{}", kind.plural(), self.name),
        }
    }
}

impl FromStr for Repository {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, name) = split_kind(text);
        Self::new(kind, name)
    }
}

/// Splits the type of the repository off an address. An address without a type refers
/// to a model.
pub(super) fn split_kind(address: &str) -> (RepoKind, &str) {
    let split = address.split_once('/');
    let found = split.and_then(|(first, rest)| Some((RepoKind::of_plural(first)?, rest)));
    found.unwrap_or((RepoKind::Model, address))
}

/// Returns whether a hub allows `name` as the name of an owner or a repository.
pub(super) fn is_name(name: &str) -> bool {
    is_plain(name)
        && (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
        && !name.contains("..")
}

/// Returns whether a text consists of characters that names may contain.
pub(super) fn is_plain(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_hub() {
        for (text, url) in [
            ("o/n", "hf://o/n@a%2Fb/d/f"),
            ("datasets/o/n.x", "hf://datasets/o/n.x@a%2Fb/d/f"),
            ("spaces/o/n_1-2", "hf://spaces/o/n_1-2@a%2Fb/d/f"),
            ("kernels/o/n", "hf://kernels/o/n@a%2Fb/d/f"),
        ] {
            let repository: Repository = text.parse().unwrap();
            assert_eq!(repository.to_string(), text);
            assert_eq!(repository.file_url("a/b", "d/f"), url);
        }
        let model: Repository = "models/o/n".parse().unwrap();
        assert_eq!(model.to_string(), "o/n");
        for kind in RepoKind::ALL {
            assert_eq!(RepoKind::of_plural(kind.plural()), Some(kind));
            let singular = kind.plural().trim_end_matches('s');
            assert_eq!(RepoKind::of_singular(singular), Some(kind));
        }
        assert_eq!(RepoKind::of_singular("models"), None);
        for text in [
            "", "o", "o/", "/n", "o/n/x", "../n", "o/..", "o/n@r", "o n/n", "-o/n",
        ] {
            assert!(text.parse::<Repository>().is_err(), "{text}");
        }
    }
}
