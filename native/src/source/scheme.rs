//! Determines from the scheme of an address how the address is read; no other module
//! decides that.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::{Error, Result, display};

/// The type of an address, which determines how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A file on a web server, read with this crate's HTTP client.
    Http,
    /// A file in a repository of a model hub, read with the same HTTP client.
    Hub,
    /// A local path.
    File,
    /// An object in a store.
    Store,
}

/// All supported schemes, in lower case.
const SCHEMES: [(&str, Scheme); 11] = [
    ("https", Scheme::Http),
    ("http", Scheme::Http),
    ("hf", Scheme::Hub),
    ("file", Scheme::File),
    ("s3", Scheme::Store),
    ("s3a", Scheme::Store),
    ("gs", Scheme::Store),
    ("az", Scheme::Store),
    ("abfs", Scheme::Store),
    ("abfss", Scheme::Store),
    ("memory", Scheme::Store),
];

impl Scheme {
    /// Returns the scheme of `text`; `None` unless the text begins with a supported
    /// scheme and `://`.
    pub(super) fn find(text: &str) -> Option<Self> {
        let (name, _) = split(text)?;
        let mut known = SCHEMES.iter();
        let found = known.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, scheme)| *scheme)
    }

    /// Returns the scheme of an address.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unsupported scheme.
    pub(super) fn of(address: &str) -> Result<Self> {
        Self::find(address).ok_or_else(|| {
            Error::Usage(format!(
                "{} is not an address: {}",
                display::address(address),
                readable()
            ))
        })
    }
}

/// Returns whether `text` is an address in an object store.
pub fn is_store(text: &str) -> bool {
    Scheme::find(text) == Some(Scheme::Store)
}

/// Returns whether `text` is an http(s) address.
pub fn is_server(text: &str) -> bool {
    Scheme::find(text) == Some(Scheme::Http)
}

/// Returns the name of the scheme of an address, and the text after `://`.
fn split(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once("://")?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_name.then_some((name, rest))
}

/// Returns the phrase for messages that lists all schemes.
fn readable() -> String {
    let names = SCHEMES.map(|(name, _)| format!("{name}://"));
    format!("addresses begin with one of {}", names.join(", "))
}

/// Returns the error for a missing local file whose path looks like an address.
pub(super) fn missing_file(path: &str) -> Option<Error> {
    split(path)?;
    Some(Error::Usage(match Scheme::find(path) {
        Some(_) => format!(
            "there is no file {path}; if this is an address, make it one with `Location::url`"
        ),
        None => format!(
            "there is no file {path}, and it is not an address that can be read: {}",
            readable()
        ),
    }))
}

/// Returns the path of a `file` address: `file:///a/b%20c` is `/a/b c`.
///
/// # Errors
/// [`Error::Usage`] for another host, a relative path, a query or a fragment.
pub(super) fn file_path(address: &str) -> Result<PathBuf> {
    let shown = display::address(address);
    let refuse = |why: &str| Err(Error::Usage(format!("{shown}: {why}")));
    let rest = split(address).map_or("", |(_, rest)| rest);
    let slash = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(slash);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return refuse(
            "an address of a local file has three slashes and an absolute path, as in \
             file:///folder/model.zstn; files of other machines cannot be read by it",
        );
    }
    if path.is_empty() {
        return refuse("an address of a local file has a path, as in file:///folder/model.zstn");
    }
    if path.contains(['?', '#']) {
        return refuse(
            "an address of a local file has no query and no fragment; if these characters are part \
             of its name, write %3F for ? and %23 for #",
        );
    }
    match decoded(path) {
        Some(path) => Ok(path),
        None => refuse("the escaped bytes of the path are not a path on this system"),
    }
}

#[cfg(unix)]
fn decoded(path: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    let is_path = !bytes.contains(&0);
    is_path.then(|| std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn decoded(path: &str) -> Option<PathBuf> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // The path `/C:/folder` becomes `C:/folder`.
    let drive = path.strip_prefix('/').filter(|path| {
        let path = path.as_bytes();
        path.len() >= 2 && path[0].is_ascii_alphabetic() && path[1] == b':'
    });
    (!path.contains('\0')).then(|| drive.unwrap_or(&path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_known_by_name() {
        for (text, scheme) in [
            ("https://h/a", Some(Scheme::Http)),
            ("HTTP://h/a", Some(Scheme::Http)),
            ("hf://o/n/f", Some(Scheme::Hub)),
            ("file:///a", Some(Scheme::File)),
            ("s3a://b/k", Some(Scheme::Store)),
            ("abfss://c@a.dfs.core.windows.net/k", Some(Scheme::Store)),
            ("memory://k", Some(Scheme::Store)),
            ("ftp://h/a", None),
            ("https:/h/a", None),
            ("a/https://h", None),
            ("://h", None),
            ("model.zstn", None),
            ("", None),
        ] {
            assert_eq!(Scheme::find(text), scheme, "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn file_addresses_are_absolute_paths_of_this_machine() {
        use std::os::unix::ffi::OsStrExt;
        for (address, path) in [
            ("file:///a/b.zstn", &b"/a/b.zstn"[..]),
            ("FILE://localhost/a%20b/%3F%23", b"/a b/?#"),
            ("file:///%FF%25", b"/\xff%"),
            ("file:////a", b"//a"),
        ] {
            let found = file_path(address).unwrap();
            assert_eq!(found.as_os_str().as_bytes(), path, "{address}");
        }
        for address in [
            "file://",
            "file://a/b",
            "file://model.zstn",
            "file:///a?b",
            "file:///a#b",
            "file:///a%00",
        ] {
            let error = file_path(address).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
    }
}
