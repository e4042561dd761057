//! Connections of the blocking HTTP client. All clients of zstn share the same policy
//! for proxies and certificates (the crate `zstn-net`).

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ureq::config::{Config, ConfigBuilder};
use ureq::http::{Request, Response, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::{AgentScope, HttpCrateScope};
use ureq::unversioned::transport::{Connector, DefaultConnector};
use ureq::{Agent, AsSendBody, Body};
use zstn_net::proxy::{Proxies, Proxy};
use zstn_net::tls::Roots;

use super::forward::{Forwarding, ToProxy};
use crate::{Error, Result};

/// Connections to servers, directly or through the proxy that applies to an address.
#[derive(Clone)]
pub struct Transport(Arc<Ways>);

struct Ways {
    proxies: Proxies,
    configure: fn() -> ConfigBuilder<AgentScope>,
    /// Unencrypted connections to servers.
    plain: OnceLock<Agent>,
    /// Encrypted connections to servers.
    secure: OnceLock<Agent>,
    /// Connections through a proxy that sees the requests.
    forwarded: OnceLock<Agent>,
    /// Tunnels through a proxy that does not see the requests: unencrypted, and
    /// encrypted.
    tunnelled: [OnceLock<Agent>; 2],
    /// True once any server has responded.
    answered: AtomicBool,
}

/// The reason why there is no response.
#[derive(Debug)]
pub enum Unanswered {
    /// The request cannot be sent, because the address or the settings are wrong.
    Unsendable(String),
    /// The server, or the proxy, does not respond.
    Failed {
        error: ureq::Error,
        /// The name of the proxy for messages, if a proxy was used.
        proxy: Option<String>,
    },
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transport").field(&self.0.proxies).finish()
    }
}

impl Transport {
    /// Creates the transport; `configure` returns the initial settings of each agent.
    pub fn new(configure: fn() -> ConfigBuilder<AgentScope>) -> Self {
        Self(Arc::new(Ways {
            proxies: Proxies::of_process(),
            configure,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
            forwarded: OnceLock::new(),
            tunnelled: Default::default(),
            answered: AtomicBool::new(false),
        }))
    }

    /// Sends a request and returns the response. `limits` sets the time limits.
    pub fn run<S: AsSendBody>(
        &self,
        mut request: Request<S>,
        limits: impl FnOnce(ConfigBuilder<HttpCrateScope<S>>) -> ConfigBuilder<HttpCrateScope<S>>,
    ) -> Result<Response<Body>, Unanswered> {
        let ways = &*self.0;
        let is_secure = request.uri().scheme_str() == Some("https");
        let proxy = ways.proxies.find(request.uri());
        let proxy = proxy.map_err(Unanswered::Unsendable)?;
        let agent = match proxy {
            // A proxy that is encrypted itself is only used for tunnels.
            Some(proxy) if is_secure || proxy.url().scheme() == "https" => {
                let tunnelled = &ways.tunnelled[usize::from(is_secure)];
                tunnelled.get_or_init(|| ways.agent(true, Some(proxy)))
            }
            None if is_secure => ways.secure.get_or_init(|| ways.agent(true, None)),
            None => ways.plain.get_or_init(|| ways.agent(false, None)),
            Some(proxy) => {
                if let Some(value) = proxy.authorization() {
                    request
                        .headers_mut()
                        .insert(header::PROXY_AUTHORIZATION, value);
                }
                ways.forwarded.get_or_init(|| ways.forwarding(proxy))
            }
        };
        let request = limits(agent.configure_request(request)).build();
        let answer = agent.run(request).map_err(|error| Unanswered::Failed {
            error,
            proxy: proxy.map(Proxy::describe),
        })?;
        ways.answered.store(true, Relaxed);
        Ok(answer)
    }

    /// Returns whether any server has responded before, so that a connection may be a
    /// reused one.
    pub fn has_answered(&self) -> bool {
        self.0.answered.load(Relaxed)
    }
}

impl Ways {
    /// Returns an agent for unencrypted requests through a proxy.
    fn forwarding(&self, proxy: &Proxy) -> Agent {
        let config = (self.configure)().proxy(None).build();
        let address: Result<Uri, _> = format!("http://{}/", proxy.authority()).parse();
        let resolver = ToProxy::new(address.unwrap_or_default());
        let connector = DefaultConnector::default().chain(Forwarding);
        Agent::with_parts(config, connector, resolver)
    }

    fn agent(&self, is_secure: bool, proxy: Option<&Proxy>) -> Agent {
        let proxy = proxy.and_then(|proxy| ureq::Proxy::new(proxy.url().as_str()).ok());
        let mut config = (self.configure)().proxy(proxy);
        if is_secure {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(root_certs());
            config = config.tls_config(tls.build());
        }
        let config: Config = config.build();
        config.into()
    }
}

/// Trusts the certificates in a PEM file in addition, for all later connections of this
/// process to web servers, hubs and object stores. The certificates of the system, of
/// `SSL_CERT_FILE` and of `SSL_CERT_DIR` are always trusted.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read or contains no certificate.
pub fn trust_certificates(file: &Path) -> Result<()> {
    let fail = Error::file("use the certificates in", file);
    zstn_net::tls::trust(file).map_err(fail)
}

/// Returns the trusted certificates, which all agents share.
fn root_certs() -> RootCerts {
    static SHARED: Mutex<Option<(Arc<Roots>, RootCerts)>> = Mutex::new(None);
    let roots = Roots::of_process();
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, certs)) = &*shared
        && Arc::ptr_eq(of, &roots)
    {
        return certs.clone();
    }
    let certs: Vec<_> = roots
        .certificates()
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    let certs = RootCerts::new_with_certs(&certs);
    *shared = Some((roots, certs.clone()));
    certs
}

impl Unanswered {
    /// Returns a sentence for the user, without the address.
    pub fn describe(&self) -> String {
        let (error, proxy) = match self {
            Self::Unsendable(why) => return why.clone(),
            Self::Failed { error, proxy } => (error, proxy),
        };
        let text = error.to_string();
        if text.contains("invalid peer certificate") {
            let advice = Roots::of_process().advice();
            return format!("the certificate of the server is not trusted: {text}{advice}");
        }
        match proxy {
            Some(proxy) => format!(
                "cannot be reached through {proxy}: {text}; check the proxy, or add the host to \
                 NO_PROXY"
            ),
            None => format!("cannot be reached: {text}"),
        }
    }
}
