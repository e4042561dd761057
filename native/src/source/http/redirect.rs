//! The target of a redirect (RFC 9110, section 10.2.2).

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use ureq::http::{HeaderValue, Uri};

/// Characters that an address must escape, though some servers do not.
const UNWRITABLE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\');

/// Returns the address that `location`, in an answer of `from`, means, or why
/// there is none that may be asked.
pub(super) fn target(from: &Uri, location: &HeaderValue) -> Result<Uri, String> {
    let text = percent_encode(location.as_bytes().trim_ascii(), UNWRITABLE).to_string();
    let text = text.split('#').next().unwrap_or_default();
    let unreadable = |_| format!("the server redirects to \"{text}\", which is not an address");
    let scheme = from.scheme_str().unwrap_or("http");
    let authority = from.authority().map_or("", |authority| authority.as_str());
    let path = from.path();
    let address = match text.split_once(':') {
        Some((scheme, _)) if is_scheme(scheme) => {
            if !["http", "https"].contains(&&*scheme.to_ascii_lowercase()) {
                return Err(format!(
                    "the server redirects to \"{scheme}:\", which is neither http nor https"
                ));
            }
            text.to_owned()
        }
        _ if text.starts_with("//") => format!("{scheme}:{text}"),
        _ if text.starts_with('/') => format!("{scheme}://{authority}{text}"),
        _ if text.is_empty() => from.to_string(),
        _ if text.starts_with('?') => format!("{scheme}://{authority}{path}{text}"),
        _ => {
            let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
            format!("{scheme}://{authority}{}", without_dots(folder, text))
        }
    };
    address
        .parse()
        .map_err(|error: ureq::http::uri::InvalidUri| unreadable(error))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// A relative path below `folder`, its `.` and `..` carried out (RFC 3986,
/// section 5.2.4); the query is left alone.
fn without_dots(folder: &str, text: &str) -> String {
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut parts: Vec<&str> = Vec::new();
    let whole = format!("{}{path}", folder.trim_start_matches('/'));
    for part in whole.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let is_folder = whole.ends_with("/.") || whole.ends_with("/..") || whole == "..";
    let end = if is_folder { "/" } else { "" };
    format!("/{}{end}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(from: &str, location: &str) -> Result<String, String> {
        let location = HeaderValue::from_bytes(location.as_bytes()).unwrap();
        target(&from.parse().unwrap(), &location).map(|uri| uri.to_string())
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
        assert!(go("http://h/m", "http://").is_err());
    }
}
