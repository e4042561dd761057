//! Repository names.

use std::fmt;
use std::str::FromStr;

use zstn::Error;

/// Maximum length of an owner's or repository's name, in bytes.
const MAX_NAME_BYTES: usize = 96;

/// The type of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepoKind {
    /// A model.
    Model,
    /// A data set.
    Dataset,
    /// An application.
    Space,
}

impl RepoKind {
    /// Returns the type with this singular name, as used in notifications.
    #[must_use]
    pub fn of_singular(name: &str) -> Option<Self> {
        match name {
            "model" => Some(Self::Model),
            "dataset" => Some(Self::Dataset),
            "space" => Some(Self::Space),
            _ => None,
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }

    /// Returns the prefix of the repository's addresses.
    fn prefix(self) -> &'static str {
        match self {
            Self::Model => "",
            Self::Dataset => "datasets/",
            Self::Space => "spaces/",
        }
    }
}

/// A repository. It displays as `OWNER/NAME` for a model, and as `datasets/OWNER/NAME`
/// or `spaces/OWNER/NAME` for the other types.
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
    pub fn new(kind: RepoKind, name: &str) -> Result<Self, Error> {
        let is_valid = name
            .split_once('/')
            .is_some_and(|(owner, name)| is_name(owner) && is_name(name));
        match is_valid {
            true => Ok(Self {
                kind,
                name: name.into(),
            }),
            false => Err(Error::Usage(format!(
                "{name:?} is not a repository; its name has to be OWNER/NAME"
            ))),
        }
    }

    /// Returns the `hf://` address of a file in `revision`.
    #[must_use]
    pub fn file_url(&self, revision: &str, path: &str) -> String {
        let revision = revision.replace('/', "%2F");
        format!("hf://{self}@{revision}/{path}")
    }

    /// Returns the path of the repository in the hub's API.
    pub(super) fn api(&self) -> String {
        format!("/api/{}/{}", self.kind.plural(), self.name)
    }

    /// Returns the path of the git repository.
    pub(super) fn git(&self) -> String {
        format!("/{self}.git")
    }

    /// Returns a file name that is unique to this repository.
    #[cfg(feature = "worker")]
    pub(crate) fn file_name(&self) -> String {
        let name = self.name.replace('/', "+");
        format!("{}+{name}", self.kind.plural())
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.name)
    }
}

impl FromStr for Repository {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let kinds = [RepoKind::Dataset, RepoKind::Space];
        let found = kinds
            .into_iter()
            .find_map(|kind| Some((kind, text.strip_prefix(kind.prefix())?)));
        let (kind, name) = found.unwrap_or((RepoKind::Model, text));
        Self::new(kind, name)
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
        && !name.contains("..")
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
        ] {
            let repository: Repository = text.parse().unwrap();
            assert_eq!(repository.to_string(), text);
            assert_eq!(repository.file_url("a/b", "d/f"), url);
        }
        for text in [
            "", "o", "o/", "/n", "o/n/x", "../n", "o/..", "o/n@r", "o n/n", "-o/n",
        ] {
            assert!(text.parse::<Repository>().is_err(), "{text}");
        }
    }
}
