//! The origin of an address, which determines the secret headers that a request to the
//! address gets.

use std::fmt;

use http::Uri;
use zstn_net::target;

use crate::source::hub;
use crate::source::scheme::Scheme;

/// The scheme, host and port of an address (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// Returns the origin of an address as a user writes it.
    pub(super) fn of_address(address: &str) -> Option<Self> {
        Self::of(&target::parse(address).ok()?.uri)
    }

    /// Returns the origin of an address; `None` if it is neither http nor https.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let default_port = match &*scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        Some(Self {
            host: uri.host()?.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(default_port),
            scheme,
        })
    }
}

/// Returns the origin of an address; for an address in a hub, this is the origin of the
/// hub. `None` if the address is not read over HTTP.
pub(in super::super) fn origin(address: &str) -> Option<String> {
    let origin = match Scheme::find(address)? {
        Scheme::Http => Origin::of_address(address)?,
        Scheme::Hub => Origin::of_address(&hub::endpoint())?,
        Scheme::File | Scheme::Store => return None,
    };
    Some(origin.to_string())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port } = self;
        write!(f, "{scheme}://{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_scheme_host_and_port() {
        let origin = |address: &str| Origin::of(&address.parse().unwrap());
        let first = origin("https://example.org/a?b");
        assert!(first.is_some());
        for same in [
            "https://example.org",
            "HTTPS://Example.ORG:443/",
            "https://user@example.org/c",
        ] {
            assert_eq!(origin(same), first, "{same}");
        }
        for other in [
            "http://example.org",
            "https://example.org:8443",
            "https://example.org.evil.test",
            "https://sub.example.org",
            "https://example.org@evil.test/",
            "ftp://example.org",
            "/example.org",
        ] {
            assert_ne!(origin(other), first, "{other}");
        }
    }
}
