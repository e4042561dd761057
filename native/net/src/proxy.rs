//! Selects the proxy of a request.
//!
//! The environment variables are the ones that curl and Python read, in lower or upper
//! case: `https_proxy` or `http_proxy`, depending on the scheme of the target, then
//! `all_proxy`. `no_proxy` lists the targets that are connected to directly. A program
//! that runs as a CGI script ignores `HTTP_PROXY`, which a client can set there through
//! a request header.

use std::net::IpAddr;
use std::str::FromStr;
use std::{env, iter};

use http::{HeaderValue, Uri};
use ipnet::IpNet;
use url::Url;

use crate::target::credentials;

/// A proxy and the variable that names it.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    variable: &'static str,
}

impl Proxy {
    /// Returns the proxy's URL, including user and password. It is meant for HTTP
    /// clients, not for messages.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the `Proxy-Authorization` header if the URL has a user or a password.
    #[must_use]
    pub fn authorization(&self) -> Option<HeaderValue> {
        credentials(&self.url)
    }

    /// Returns the proxy's host and port.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or(80);
        format!("{host}:{port}")
    }

    /// Returns the proxy's description for messages: its URL without credentials, and
    /// the variable that names it.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { url, variable } = self;
        format!(
            "the proxy {}://{} (from {variable})",
            url.scheme(),
            self.authority()
        )
    }
}

/// Prints [`Proxy::describe`], so that no password is shown.
impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// The proxies of a process, and the targets that are connected to directly.
#[derive(Debug, Clone)]
pub struct Proxies {
    http: Result<Option<Proxy>, String>,
    https: Result<Option<Proxy>, String>,
    direct: Vec<Direct>,
}

impl Proxies {
    /// Reads the environment variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(&|name| env::var(name).ok())
    }

    /// Parses the environment variables. `get` returns the value of a variable.
    fn of(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            let mut set = names.iter().filter_map(|name| Some((*name, get(name)?)));
            set.find(|(_, value)| !value.trim().is_empty())
        };
        let is_cgi = get("REQUEST_METHOD").is_some();
        let http: &[_] = match is_cgi {
            true => &["http_proxy", "all_proxy", "ALL_PROXY"],
            false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        };
        let https = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
        let direct = first(&["no_proxy", "NO_PROXY"]).map_or_else(String::new, |(_, value)| value);
        let parsed = |names| {
            first(names)
                .map(|(name, value)| parse(name, &value))
                .transpose()
        };
        Self {
            http: parsed(http),
            https: parsed(&https),
            direct: direct
                .split(|c: char| c == ',' || c.is_whitespace())
                .filter_map(Direct::parse)
                .collect(),
        }
    }

    /// Returns the proxy for a request to `target`; `None` if the request goes directly
    /// to the target.
    ///
    /// # Errors
    /// A message that names the variable, if its value cannot be used as a proxy.
    pub fn find(&self, target: &Uri) -> Result<Option<&Proxy>, String> {
        let host = target.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_https = target.scheme_str() == Some("https");
        let port = target.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        if self.direct.iter().any(|direct| direct.includes(host, port)) {
            return Ok(None);
        }
        let proxy = if is_https { &self.https } else { &self.http };
        match proxy {
            Ok(proxy) => Ok(proxy.as_ref()),
            Err(why) => Err(why.clone()),
        }
    }

    /// Checks the variables in advance, for clients whose own proxy lookup cannot
    /// report an error: the variable for https requests, and the one for http requests
    /// if `may_be_plain`.
    ///
    /// # Errors
    /// A message that names the variable, if its value cannot be used as a proxy.
    pub fn check(&self, may_be_plain: bool) -> Result<(), String> {
        let plain = Some(&self.http).filter(|_| may_be_plain);
        let mut used = iter::once(&self.https).chain(plain);
        used.try_for_each(|proxy| match proxy {
            Ok(_) => Ok(()),
            Err(why) => Err(why.clone()),
        })
    }

    /// Returns the URL of the proxy for a request to `target`, including user and
    /// password. `None` if there is no proxy, or if [`Proxies::check`] refuses its
    /// variable.
    #[must_use]
    pub fn url_for(&self, target: &str) -> Option<Url> {
        let proxy = self.find(&target.parse().ok()?).ok()?;
        proxy.map(|proxy| proxy.url.clone())
    }
}

/// Returns a description, for messages, of the proxy that requests to the http(s) URL
/// `target` use; `None` if they use none.
#[must_use]
pub fn describe_for(target: &str) -> Option<String> {
    let target = crate::target::parse(target).ok()?.uri;
    let proxies = Proxies::of_process();
    Some(proxies.find(&target).ok()??.describe())
}

fn parse(variable: &'static str, value: &str) -> Result<Proxy, String> {
    let value = value.trim();
    let unusable = |why: &str| {
        format!(
            "{variable} does not name a proxy that can be used: {why}; it has to be like \
             http://proxy.example:3128, or add the host to NO_PROXY"
        )
    };
    let address = match value.contains("://") {
        true => value.to_owned(),
        false => format!("http://{value}"),
    };
    let url = Url::parse(&address).map_err(|error| unusable(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(Proxy { url, variable }),
        scheme if scheme.starts_with("socks") => {
            Err(unusable("SOCKS is not supported, only HTTP proxies are"))
        }
        _ => Err(unusable("its scheme is neither http nor https")),
    }
}

/// An entry of `no_proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Direct {
    All,
    Net(IpNet),
    /// A host and its subdomains, on one port or on all.
    Host(String, Option<u16>),
}

impl Direct {
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.trim();
        if entry.is_empty() {
            return None;
        }
        if entry == "*" {
            return Some(Self::All);
        }
        if let Ok(net) = IpNet::from_str(entry) {
            return Some(Self::Net(net));
        }
        let bare = entry.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = IpAddr::from_str(bare) {
            return Some(Self::Net(address.into()));
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        let host = host.trim_start_matches('*').trim_start_matches('.');
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self::Host(host.to_ascii_lowercase(), port))
    }

    fn includes(&self, host: &str, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Net(net) => IpAddr::from_str(host).is_ok_and(|address| {
                let plain = match address {
                    IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
                    IpAddr::V4(_) => address,
                };
                net.contains(&address) || net.contains(&plain)
            }),
            Self::Host(name, only) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let above = host.strip_suffix(name.as_str());
                only.is_none_or(|only| only == port)
                    && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::of(&|name| {
            let mut all = variables.iter();
            let found = all.find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    fn find(proxies: &Proxies, target: &str) -> Option<String> {
        let found = proxies.find(&target.parse().unwrap()).unwrap();
        found.map(Proxy::authority)
    }

    #[test]
    fn the_scheme_of_the_target_decides() {
        let proxies = proxies(&[
            ("HTTPS_PROXY", "http://u:p@s:1"),
            ("http_proxy", "p"),
            ("HTTP_PROXY", "other"),
            ("ALL_PROXY", "http://a:2"),
        ]);
        assert_eq!(find(&proxies, "https://h/").as_deref(), Some("s:1"));
        assert_eq!(find(&proxies, "http://h/").as_deref(), Some("p:80"));
        let shown = format!("{proxies:?}");
        assert!(!shown.contains("u:p"), "{shown}");
        let found = proxies
            .find(&"https://h/".parse().unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(found.authorization().unwrap(), "Basic dTpw");
        let cgi = self::proxies(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "p")]);
        assert_eq!(find(&cgi, "http://h/"), None);
    }

    #[test]
    fn unusable_proxies_are_named() {
        for value in ["http://", "http://h:x", "socks5://h:1", "ftp://h"] {
            let proxies = proxies(&[("https_proxy", value)]);
            let error = proxies.find(&"https://h/".parse().unwrap()).unwrap_err();
            assert!(error.contains("https_proxy"), "{value}: {error}");
            assert_eq!(find(&proxies, "http://h/"), None);
        }
    }

    #[test]
    fn targets_without_a_proxy() {
        for (list, target, direct) in [
            ("*", "http://h/", true),
            ("example.org", "http://example.org/", true),
            ("example.org", "http://a.Example.ORG/", true),
            (".example.org", "http://a.example.org/", true),
            ("*.example.org", "http://a.example.org/", true),
            ("example.org", "http://notexample.org/", false),
            ("a, example.org:81", "http://example.org:81/", true),
            ("example.org:81", "http://example.org/", false),
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("10.0.0.0/8", "http://10.example/", false),
            ("fd00::/8", "http://[fd12::1]:8/", true),
            ("::1", "http://[::1]/", true),
            ("127.0.0.1", "http://127.0.0.1:8080/", true),
            ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", true),
            ("", "http://h/", false),
        ] {
            let proxies = proxies(&[("HTTP_PROXY", "p"), ("NO_PROXY", list)]);
            assert_eq!(find(&proxies, target).is_none(), direct, "{list} {target}");
        }
    }
}
