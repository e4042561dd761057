//! The name of a file in its address, and the addresses of files next to it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::http;
use super::hub;
use super::scheme::Scheme;

/// Characters that are not escaped in the path of an address.
pub(crate) const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the address of the file called `name` in the same folder, with the
/// query of `url`. `name` must be a plain file name.
pub(super) fn sibling(url: &str, name: &str) -> String {
    if Scheme::find(url) == Some(Scheme::Hub) {
        return hub::sibling(url, name);
    }
    let (path, query) = split(url);
    let folder = path.rfind('/').map_or(path, |slash| &path[..=slash]);
    let name = utf8_percent_encode(name, PLAIN);
    format!("{folder}{name}{query}")
}

/// Returns the last component of an address; it may be empty.
pub(super) fn file_name(url: &str) -> String {
    if Scheme::find(url) == Some(Scheme::Hub) {
        return hub::file_name(url);
    }
    let path = split(url).0;
    let last = path.rsplit('/').next().unwrap_or_default();
    percent_decode_str(last).decode_utf8_lossy().into_owned()
}

/// Returns the address of the object called `name` in the same folder of a store.
/// Names of objects are taken literally: they have no escapes and no query.
pub(super) fn object_sibling(url: &str, name: &str) -> String {
    let folder = url.len() - object_name(url).len();
    format!("{}{name}", &url[..folder])
}

/// Returns whether two names of inputs and outputs are addresses of the same file,
/// or paths that are spelled alike. A query does not count: it may be a signature.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns the kind of store or the origin, and what is named there.
fn identity(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    match Scheme::find(url)? {
        Scheme::Store => {
            let service = match &*scheme.to_ascii_lowercase() {
                "s3" | "s3a" => "s3",
                "az" | "abfs" | "abfss" => "az",
                other => return Some((other.into(), rest.into())),
            };
            let (container, name) = rest.split_once('/').unwrap_or((rest, ""));
            // The account of an Azure address is that of the environment or
            // another; taking both for the same refuses rather than replaces.
            let container = container.split('@').next().unwrap_or_default();
            Some((service.into(), format!("{container}/{name}")))
        }
        Scheme::Http => {
            let origin = http::origin(url)?;
            let path = split(rest).0.split_once('/').map_or("", |(_, path)| path);
            let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
            Some((origin, path))
        }
        Scheme::Hub | Scheme::File => None,
    }
}

/// Returns the last component of the name of an object; it may be empty.
pub(super) fn object_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// Splits an address into what precedes its query, and the query. The fragment
/// is dropped.
fn split(url: &str) -> (&str, &str) {
    let url = url.split('#').next().unwrap_or_default();
    url.split_at(url.find('?').unwrap_or(url.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_same_however_they_are_spelled() {
        for (one, other) in [
            ("s3://b/x", "S3A://b/x"),
            ("az://c/x", "abfss://c@account.dfs.core.windows.net/x"),
            ("https://H/a%20b?token=1", "https://h:443/a%20b#top"),
            ("model.zstn", "model.zstn"),
        ] {
            assert!(is_same(one, other), "{one} and {other}");
        }
        for (one, other) in [
            ("s3://b/x", "s3://b/X"),
            ("s3://b/x", "gs://b/x"),
            ("https://h/x", "http://h/x"),
            ("https://h/x", "https://h/y"),
            ("hf://o/n/x", "https://h/x"),
            ("a/x", "b/x"),
        ] {
            assert!(!is_same(one, other), "{one} and {other}");
        }
    }
}
