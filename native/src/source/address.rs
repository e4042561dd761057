//! The name of a file in its address, and the addresses of files next to it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

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
