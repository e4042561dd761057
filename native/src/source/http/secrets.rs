//! Headers that are sent to one origin only, such as a token.

use std::fmt;

use ureq::http::request::Builder;
use ureq::http::{HeaderName, HeaderValue, Uri, header};

use zstn_net::target;

use crate::source::hub;
use crate::source::scheme::Scheme;
use crate::{Error, Result};

/// Headers that the reader sets itself or that frame a request.
const RESERVED: &[HeaderName] = &[
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

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

/// Headers, each with the only origin that may receive it.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<Secret>);

#[derive(Clone)]
struct Secret {
    origin: Origin,
    name: HeaderName,
    value: HeaderValue,
}

impl Secrets {
    /// Adds a header, replacing one with the same name for the same origin. Errors
    /// contain none of the arguments, because a caller may have passed them in the
    /// wrong order.
    pub(super) fn add(&mut self, address: &str, name: &str, value: &str) -> Result<()> {
        let name = HeaderName::try_from(name)
            .map_err(|_| Error::Usage("the name of a header contains invalid characters".into()))?;
        if RESERVED.contains(&name) {
            let detail = format!("the header {name} is set by the reader; leave it out");
            return Err(Error::Usage(detail));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            Error::Usage(format!(
                "the value of the header {name} contains invalid characters, such as the end of a \
                 line"
            ))
        })?;
        value.set_sensitive(true);
        self.add_value(address, name, value)
    }

    /// Adds a header that is already validated.
    pub(super) fn add_value(
        &mut self,
        address: &str,
        name: HeaderName,
        value: HeaderValue,
    ) -> Result<()> {
        let origin = Origin::of_address(address).ok_or_else(|| {
            let advice = "a header needs the http(s) address of the server it is for, such as \
                          https://example.org";
            Error::Usage(advice.into())
        })?;
        self.0
            .retain(|known| known.origin != origin || known.name != name);
        self.0.push(Secret {
            origin,
            name,
            value,
        });
        Ok(())
    }

    /// Returns whether a header called `name` was added for the origin of `address`.
    pub(super) fn has(&self, address: &str, name: &HeaderName) -> bool {
        let origin = Origin::of_address(address);
        let mut own = self.0.iter().filter(|secret| secret.name == *name);
        own.any(|secret| Some(&secret.origin) == origin.as_ref())
    }

    /// Adds the headers for `origin` to a request.
    pub(super) fn apply(&self, origin: &Origin, mut request: Builder) -> Builder {
        for secret in self.0.iter().filter(|secret| secret.origin == *origin) {
            request = request.header(&secret.name, &secret.value);
        }
        request
    }
}

/// Shows origins and names, but never values.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter();
        let shown = shown.map(|Secret { origin, name, .. }| format!("{name} for {origin}"));
        f.debug_list().entries(shown).finish()
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
