//! Addresses of objects.

use std::fmt;

use object_store::ObjectStore;
use object_store::path::Path;

use crate::{Error, Result};

/// The service that stores the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    S3,
    Azure,
    Google,
    Memory,
}

const SCHEMES: [(&str, Service); 7] = [
    ("s3", Service::S3),
    ("s3a", Service::S3),
    ("gs", Service::Google),
    ("az", Service::Azure),
    ("abfs", Service::Azure),
    ("abfss", Service::Azure),
    ("memory", Service::Memory),
];

/// Returns whether `text` has the scheme of an object store. The rest of the address is
/// not checked.
#[must_use]
pub fn is_store(text: &str) -> bool {
    split_scheme(text).is_some_and(|(scheme, _)| service_of(scheme).is_some())
}

/// The address of an object or of a folder of objects, such as
/// `s3://bucket/folder/name`.
///
/// The name of an object is taken literally: `%20` is three characters, and `?`
/// and `#` have no meaning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    service: Service,
    /// Scheme and container, such as `s3://bucket`.
    root: String,
    /// The object's name inside the container, without a slash at either end.
    key: String,
}

impl Address {
    /// Parses `s3://BUCKET/NAME` (or `s3a`), `gs://BUCKET/NAME`,
    /// `az://CONTAINER/NAME` (or `abfs`, `abfss`),
    /// `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME`, and `memory://NAME`
    /// for a store inside this process.
    ///
    /// # Errors
    /// [`Error::Scheme`] for other schemes; [`Error::Address`] if the address has no
    /// container, contains credentials, or has a name with empty components.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = split_scheme(text);
        let known = parsed.and_then(|(scheme, rest)| Some((scheme, service_of(scheme)?, rest)));
        let Some((scheme, service, rest)) = known else {
            let scheme = parsed.map_or("", |(scheme, _)| scheme);
            return Err(Error::Scheme {
                scheme: scheme.into(),
            });
        };
        let scheme = scheme.to_ascii_lowercase();
        let (container, key) = match service {
            Service::Memory => ("", rest.trim_start_matches('/')),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        let root = format!("{scheme}://{container}");
        let shown = format!("{scheme}://…/{key}");
        if let Some((user, _)) = container.rsplit_once('@')
            && (!scheme.starts_with("abfs") || user.contains([':', '@']))
        {
            return Err(Error::Address {
                url: shown,
                detail: "credentials do not belong into an address; \
                         give them in environment variables"
                    .into(),
            });
        }
        if container.is_empty() && service != Service::Memory {
            let detail = "the bucket or container is missing; write SCHEME://BUCKET/NAME";
            return Err(Error::Address {
                url: shown,
                detail: detail.into(),
            });
        }
        if container.contains(|c: char| c.is_control() || c.is_whitespace() || "?#%\\".contains(c))
        {
            return Err(Error::Address {
                url: root,
                detail: "this is not the name of a bucket or container".into(),
            });
        }
        Self {
            service,
            root,
            key: String::new(),
        }
        .with_key(key)
    }

    /// Returns an address for messages about an object in any store of the `object_store`
    /// crate.
    pub(crate) fn in_store(store: &dyn ObjectStore, path: &Path) -> Self {
        Self {
            service: Service::Memory,
            root: format!("{store}/"),
            key: path.to_string(),
        }
    }

    /// Returns the address of `relative`, which may contain slashes, below this
    /// address.
    ///
    /// # Errors
    /// [`Error::Address`] if a component is empty, `.` or `..`.
    pub fn join(&self, relative: &str) -> Result<Self> {
        match self.key.is_empty() {
            true => self.with_key(relative),
            false => self.with_key(&format!("{}/{relative}", self.key)),
        }
    }

    /// Returns the address of `name` in the same folder.
    ///
    /// # Errors
    /// [`Error::Address`] if a component is empty, `.` or `..`.
    pub fn sibling(&self, name: &str) -> Result<Self> {
        match self.key.rsplit_once('/') {
            Some((folder, _)) => self.with_key(&format!("{folder}/{name}")),
            None => self.with_key(name),
        }
    }

    /// Returns the last component of the name; `None` for a whole container.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.key.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// Returns the address as text, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        match (self.service, self.key.is_empty()) {
            (_, true) => self.root.clone(),
            (Service::Memory, _) => format!("{}{}", self.root, self.key),
            _ => format!("{}/{}", self.root, self.key),
        }
    }

    pub(crate) fn service(&self) -> Service {
        self.service
    }

    /// Returns scheme and container, such as `s3://bucket`.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Returns the name as a path of the `object_store` crate.
    pub(crate) fn path(&self) -> Result<Path> {
        Path::parse(&self.key).map_err(|_| self.bad_key(&self.key))
    }

    /// Returns the name of an object as a path of the `object_store` crate; an error if
    /// this address is a whole container.
    pub(crate) fn object_path(&self) -> Result<Path> {
        if self.key.is_empty() {
            return Err(Error::Address {
                url: self.url(),
                detail: "this names no object; add a name after the bucket or container".into(),
            });
        }
        self.path()
    }

    fn with_key(&self, key: &str) -> Result<Self> {
        let key = key.strip_suffix('/').unwrap_or(key);
        if key.starts_with('/') || Path::parse(key).is_err() {
            return Err(self.bad_key(key));
        }
        Ok(Self {
            key: key.into(),
            ..self.clone()
        })
    }

    fn bad_key(&self, key: &str) -> Error {
        Error::Address {
            url: format!("{}/{key}", self.root),
            detail: "names with empty components, `.`, `..` or control characters cannot be \
                     used; check the slashes"
                .into(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    text.split_once("://")
}

fn service_of(scheme: &str) -> Option<Service> {
    let mut known = SCHEMES.iter();
    known
        .find(|(name, _)| name.eq_ignore_ascii_case(scheme))
        .map(|(_, service)| *service)
}
