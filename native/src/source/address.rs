//! The name of a file in its address, and the addresses of files next to it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::http;
use super::scheme::Scheme;

/// Characters that are not escaped in the path of an address.
pub const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the address of the file called `name` in the same folder, with the
/// query of `url`. `name` must be a plain file name.
pub(super) fn sibling(url: &str, name: &str) -> String {
    if is_literal(url) {
        return format!("{}{name}", &url[..url.len() - literal_name(url).len()]);
    }
    let (path, query) = split(url);
    let folder = path.rfind('/').map_or(path, |slash| &path[..=slash]);
    let name = utf8_percent_encode(name, PLAIN);
    format!("{folder}{name}{query}")
}

/// Returns the last component of an address; it may be empty.
pub(super) fn file_name(url: &str) -> String {
    if is_literal(url) {
        return literal_name(url).into();
    }
    let path = split(url).0;
    let last = path.rsplit('/').next().unwrap_or_default();
    percent_decode_str(last).decode_utf8_lossy().into_owned()
}

/// Returns whether names in an address are taken literally: those of hubs and
/// stores have no escapes and no query.
fn is_literal(url: &str) -> bool {
    matches!(Scheme::find(url), Some(Scheme::Hub | Scheme::Store))
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

fn literal_name(url: &str) -> &str {
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

    #[test]
    fn names_in_hubs_and_stores_are_literal() {
        for (address, sibling_of, name) in [
            ("hf://o/n@r/a/m?.json", "hf://o/n@r/a/s#1", "m?.json"),
            ("hf://o/n/m", "hf://o/n/s#1", "m"),
            ("hf://o/n/", "hf://o/n/s#1", ""),
            ("s3://b/a%20/m?.zstn", "s3://b/a%20/s#1", "m?.zstn"),
        ] {
            assert_eq!(sibling(address, "s#1"), sibling_of);
            assert_eq!(file_name(address), name);
        }
    }
}
