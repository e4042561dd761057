//! Access rules: the hosts that requests may name, and the origins whose pages may read
//! the answers.
//!
//! Any website can make a browser send requests to this machine. Two checks keep its
//! pages from reading the answers: an answer is readable only for allowed origins, and
//! a host name that the website lets resolve to this machine (DNS rebinding) is
//! refused.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};

use super::Note;

/// Decides which `Host` and `Origin` headers are accepted. The default accepts IP
/// addresses and `localhost` as hosts, and pages served from this machine as origins.
#[derive(Debug, Clone, Default)]
pub struct Access {
    hosts: Vec<String>,
    origins: Vec<String>,
    any_origin: bool,
}

/// The page that sent a request, by whether it may read the answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reader {
    /// The request does not come from a page of another origin.
    Same,
    /// The page of this origin may read the answer; `*` allows every page.
    Allowed(HeaderValue),
    /// The page of this origin may not read the answer.
    Foreign(String),
}

impl Access {
    pub fn allow_host(&mut self, name: &str) {
        self.hosts.push(normal_host(name));
    }

    /// Allows an origin in the syntax that browsers use, or all origins (`*`). Returns
    /// false if `origin` is neither.
    pub fn allow_origin(&mut self, origin: &str) -> bool {
        if origin == "*" {
            self.any_origin = true;
            return true;
        }
        let origin = normal_origin(origin);
        let is_one = origin == "null"
            || origin.split_once("://").is_some_and(|(scheme, authority)| {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                !scheme.is_empty() && scheme.chars().all(is_plain) && host_of(authority).is_some()
            });
        if is_one {
            self.origins.push(origin);
        }
        is_one
    }

    /// Returns the error message for an origin that [`Access::allow_origin`] has
    /// rejected.
    pub fn not_an_origin(origin: &str) -> String {
        format!("{origin} is not an origin: it has to be like https://example.org, or * for all")
    }

    /// Refuses a request whose host is not one of this server's names.
    pub fn check_host(&self, request: &Parts) -> Result<(), (StatusCode, Note)> {
        let malformed = || {
            let sentence = "the request has to name one host, like localhost:8080";
            (StatusCode::BAD_REQUEST, Note::Malformed(sentence.into()))
        };
        let mut named = request.headers.get_all(header::HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => Some(host.to_str().map_err(|_| malformed())?),
            (None, _) if request.version < Version::HTTP_11 => None,
            _ => return Err(malformed()),
        };
        let absolute = request.uri.authority().map(Authority::as_str);
        for named in host.into_iter().chain(absolute) {
            let name = normal_host(host_of(named).ok_or_else(malformed)?);
            if !self.is_ours(&name) {
                let note = Note::UnknownHost {
                    name: name.to_string(),
                };
                return Err((StatusCode::MISDIRECTED_REQUEST, note));
            }
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        name == "localhost"
            || name.ends_with(".localhost")
            || address(name).is_some()
            || self.hosts.iter().any(|host| host == name)
    }

    /// Returns whether the page that sent the request, if any, may read the answer.
    pub fn reader(&self, headers: &HeaderMap) -> Reader {
        if self.any_origin {
            return Reader::Allowed(HeaderValue::from_static("*"));
        }
        let Some(value) = headers.get(header::ORIGIN) else {
            return Reader::Same;
        };
        let origin = String::from_utf8_lossy(value.as_bytes());
        if is_local(&origin) || self.origins.iter().any(|allowed| *allowed == origin) {
            return Reader::Allowed(value.clone());
        }
        let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
        match origin.split_once("://") {
            Some(("http" | "https", authority)) if Some(authority.as_bytes()) == host => {
                Reader::Same
            }
            _ => Reader::Foreign(origin.into_owned()),
        }
    }

    /// Returns whether answers depend on the request's origin.
    pub fn varies(&self) -> bool {
        !self.any_origin
    }
}

/// Returns whether an origin is on this machine, such as `http://localhost:5173`.
fn is_local(origin: &str) -> bool {
    let authority = ["http://", "https://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    authority.and_then(host_of).is_some_and(|host| {
        host == "localhost" || address(host).is_some_and(|address| address.is_loopback())
    })
}

/// Returns the host of an authority such as `localhost:8080`, or `None` if it contains
/// anything but a host and a port.
fn host_of(authority: &str) -> Option<&str> {
    let parsed: Authority = authority.parse().ok()?;
    // The parser accepts a user before the host, and anything as a port.
    let host = authority.get(..parsed.host().len())?;
    let port = &authority[host.len()..];
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    (is_whole && host == parsed.host() && !host.is_empty()).then_some(host)
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

fn normal_host(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix('.').map_or(name.clone(), str::to_owned)
}

/// Returns an origin as browsers write it: in lower case and without the scheme's
/// default port.
fn normal_origin(origin: &str) -> String {
    let origin = origin.trim_end_matches('/').to_ascii_lowercase();
    let shortened = match origin.split_once("://") {
        Some(("http", rest)) => rest.strip_suffix(":80"),
        Some(("https", rest)) => rest.strip_suffix(":443"),
        _ => None,
    };
    match shortened {
        Some(rest) => format!(
            "{}://{rest}",
            origin.split("://").next().unwrap_or_default()
        ),
        None => origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(access: &Access, origin: &str, host: &str) -> Reader {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        headers.insert(header::HOST, host.parse().unwrap());
        access.reader(&headers)
    }

    #[test]
    fn origins_are_allowed_as_browsers_write_them() {
        let mut access = Access::default();
        for origin in [
            "https://Viewer.example/",
            "http://viewer.example:80",
            "https://other.example:8443",
            "app://obsidian.md",
            "null",
        ] {
            assert!(access.allow_origin(origin), "{origin}");
        }
        for (origin, is_allowed) in [
            ("https://viewer.example", true),
            ("http://viewer.example", true),
            ("https://other.example:8443", true),
            ("app://obsidian.md", true),
            ("null", true),
            ("https://other.example", false),
            ("http://viewer.example:81", false),
        ] {
            let expected = match is_allowed {
                true => Reader::Allowed(origin.parse().unwrap()),
                false => Reader::Foreign(origin.into()),
            };
            assert_eq!(reader(&access, origin, "localhost"), expected);
        }
        for origin in [
            "viewer.example",
            "https://",
            "https://a/b",
            "https://a@b",
            "",
        ] {
            assert!(!access.allow_origin(origin), "{origin}");
        }
        assert!(access.allow_origin("*"));
        let any = Reader::Allowed(HeaderValue::from_static("*"));
        assert_eq!(reader(&access, "https://other.example", "localhost"), any);
    }

    #[test]
    fn a_page_of_this_very_server_is_none_of_another_origin() {
        let (access, host) = (Access::default(), "192.168.1.7:8080");
        assert_eq!(
            reader(&access, "http://192.168.1.7:8080", host),
            Reader::Same
        );
        let other = "http://192.168.1.7:8081";
        assert_eq!(reader(&access, other, host), Reader::Foreign(other.into()));
    }
}
