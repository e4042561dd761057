//! File names in addresses, and addresses of other files in the same folder.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::http;
use super::scheme::Scheme;

/// The set of characters that are escaped in the path of an address: all except
/// letters, digits and `-._~`.
pub const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the address of the file called `name` in the folder of `url`, with the query
/// of `url`. `name` must be a plain file name, or several joined by `/`.
pub(super) fn sibling(url: &str, name: &str) -> String {
    if is_literal(url) {
        return format!("{}{name}", &url[..url.len() - literal_name(url).len()]);
    }
    let (path, query) = split(url);
    let folder = path.rfind('/').map_or(path, |slash| &path[..=slash]);
    let names = name.split('/');
    let names = names.map(|name| utf8_percent_encode(name, PLAIN).to_string());
    let name = names.collect::<Vec<_>>().join("/");
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

/// Returns whether names in an address are literal: the addresses of hubs and stores
/// have no escapes and no query.
fn is_literal(url: &str) -> bool {
    matches!(Scheme::find(url), Some(Scheme::Hub | Scheme::Store))
}

/// Returns whether two names of inputs and outputs are addresses of the same file, or
/// equal paths. Queries are ignored, because a query may be a signature.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns the type of store or the origin, and the normalised name within it.
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
            // An Azure address may omit its account, which the environment then
            // specifies. Treating both as the same refuses an output rather than
            // replacing an input.
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

/// Splits an address into the part before its query, and the query. The fragment is
/// dropped.
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
