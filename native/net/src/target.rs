//! The URL and credentials that are sent in a request.
//!
//! People write URLs as browsers show them: with letters of any alphabet in hosts and
//! paths, with spaces, with a user and a password. This module converts a URL to ASCII by
//! the WHATWG URL standard, as browsers do, and the user and password to a header.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::{CONTROLS, percent_decode_str, percent_encode};
use url::Url;

use crate::shown;

/// The parts of a URL that a request needs.
#[derive(Debug, Clone)]
pub struct Target {
    /// The URL without user, password and fragment.
    pub uri: Uri,
    /// The `Authorization: Basic …` header, if the URL has a user or a password.
    pub user: Option<HeaderValue>,
}

/// Parses an http(s) URL.
///
/// # Errors
/// The reason why the text is not such a URL. The message does not contain the text.
///
/// ```
/// let target = zstn_net::target::parse("http://a:%40@bücher.example/ü b").unwrap();
/// assert_eq!(target.uri, "http://xn--bcher-kva.example/%C3%BC%20b");
/// assert_eq!(target.user.unwrap(), "Basic YTpA");
/// ```
pub fn parse(address: &str) -> Result<Target, String> {
    let url = Url::parse(address).map_err(|error| error.to_string())?;
    of_url(url)
}

/// Resolves the `Location` header of a response to a request for `from` (RFC 9110,
/// section 10.2.2).
///
/// # Errors
/// The reason why the redirect cannot be followed.
pub fn redirected(from: &Uri, location: &HeaderValue) -> Result<Target, String> {
    // Some servers send bytes that are not ASCII.
    let text = percent_encode(location.as_bytes().trim_ascii(), CONTROLS).to_string();
    let refused = |_| {
        let shown = shown::address(&text);
        format!("the server redirects to \"{shown}\", which is not an address")
    };
    let from = Url::parse(&from.to_string()).map_err(refused)?;
    let url = from.join(&text).map_err(refused)?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(format!(
            "the server redirects to \"{}:\", which is neither http nor https",
            url.scheme()
        ));
    }
    of_url(url)
}

fn of_url(mut url: Url) -> Result<Target, String> {
    if !["http", "https"].contains(&url.scheme()) {
        return Err("it is neither http nor https".into());
    }
    let user = credentials(&url);
    url.set_fragment(None);
    // These calls fail only for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let uri = url.as_str().parse();
    let uri = uri.map_err(|error: http::uri::InvalidUri| error.to_string())?;
    Ok(Target { uri, user })
}

/// Returns `Basic …` with the decoded user and password of a URL (RFC 7617).
pub(crate) fn credentials(url: &Url) -> Option<HeaderValue> {
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    if user.is_empty() && password.is_empty() {
        return None;
    }
    let mut plain: Vec<u8> = percent_decode_str(user).collect();
    plain.push(b':');
    plain.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_ascii() {
        for (given, expected) in [
            ("http://h", "http://h/"),
            ("HTTP://H:80/a%20b?c=d/é#e", "http://h/a%20b?c=d/%C3%A9"),
            (
                "https://例え.テスト/ファイル",
                "https://xn--r8jz45g.xn--zckzah/%E3%83%95%E3%82%A1%E3%82%A4%E3%83%AB",
            ),
            ("http://[::1]:8/a b", "http://[::1]:8/a%20b"),
            (
                "http://h/?X-Amz-Signature=a%2Fb+c",
                "http://h/?X-Amz-Signature=a%2Fb+c",
            ),
        ] {
            assert_eq!(parse(given).unwrap().uri.to_string(), expected, "{given}");
        }
        for given in ["http://", "http://h:x/", "ftp://h/", "h/a", "http://a b/"] {
            assert!(parse(given).is_err(), "{given}");
        }
    }

    #[test]
    fn users_are_decoded() {
        for (given, expected) in [
            ("http://u:p@h/", Some("Basic dTpw")),
            ("http://u%40x:p%3Aq@h/", Some("Basic dUB4OnA6cQ==")),
            ("http://u@h/", Some("Basic dTo=")),
            ("http://h/a@b", None),
        ] {
            let user = parse(given).unwrap().user;
            let user = user.as_ref().map(|user| user.to_str().unwrap());
            assert_eq!(user, expected, "{given}");
        }
    }

    fn go(from: &str, location: &str) -> Result<String, String> {
        let location = HeaderValue::from_bytes(location.as_bytes()).unwrap();
        redirected(&from.parse().unwrap(), &location).map(|target| target.uri.to_string())
    }

    #[test]
    fn locations_are_resolved() {
        let from = "https://h:8/a/b/m.zstn?x=1";
        for (location, expected) in [
            ("http://o/c", "http://o/c"),
            ("HTTPS://o/c?d#e", "https://o/c?d"),
            ("//o/c", "https://o/c"),
            ("/c?y", "https://h:8/c?y"),
            ("c", "https://h:8/a/b/c"),
            ("../c?y=../z", "https://h:8/a/c?y=../z"),
            ("./../../../../c", "https://h:8/c"),
            ("?y", "https://h:8/a/b/m.zstn?y"),
            ("/a b/ü", "https://h:8/a%20b/%C3%BC"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("c:d/e", ""),
        ] {
            match go(from, location) {
                Ok(found) => assert_eq!(found, expected, "{location}"),
                Err(_) => assert_eq!("", expected, "{location}"),
            }
        }
    }

    #[test]
    fn nothing_but_http_is_followed() {
        for location in ["file:///etc/passwd", "ftp://h/x", "data:text/plain,x"] {
            let error = go("http://h/m", location).unwrap_err();
            assert!(error.contains("neither http nor https"), "{error}");
        }
        let error = go("http://h/m", "http://u:secret@:/x?secret").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
