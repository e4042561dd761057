//! Connections of the blocking client, by the policy that all of zstn's clients
//! share (the crate `zstn-net`).

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

/// Connections to servers, each by the way that its address takes.
#[derive(Clone)]
pub struct Transport(Arc<Ways>);

struct Ways {
    proxies: Proxies,
    configure: fn() -> ConfigBuilder<AgentScope>,
    /// Without encryption, to servers.
    plain: OnceLock<Agent>,
    /// Connections to servers with encryption.
    secure: OnceLock<Agent>,
    /// Through a proxy that sees the requests.
    forwarded: OnceLock<Agent>,
    /// Through a proxy that sees nothing, to servers without and with encryption.
    tunnelled: [OnceLock<Agent>; 2],
    /// True once any server has answered.
    answered: AtomicBool,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// The request cannot be sent: the address or the settings are wrong.
    Unsendable(String),
    /// The server, or the proxy before it, does not answer.
    Failed {
        error: ureq::Error,
        /// The name of the proxy for messages, if there is one.
        proxy: Option<String>,
    },
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transport").field(&self.0.proxies).finish()
    }
}

impl Transport {
    /// Prepares connections; `configure` begins the settings of each agent.
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

    /// Sends a request and returns its answer. `limits` sets its time limits.
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
            // To a proxy that is encrypted itself there is only a tunnel.
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

    /// Returns whether any server has answered, so that a connection may be one that
    /// was kept since then.
    pub fn has_answered(&self) -> bool {
        self.0.answered.load(Relaxed)
    }
}

impl Ways {
    /// Returns connections to a proxy, for requests without encryption.
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

/// Trusts the certificates in a PEM file as well, in all connections that this
/// process makes from now on: to web servers, hubs and object stores. The
/// certificates of the system, of `SSL_CERT_FILE` and of `SSL_CERT_DIR` are trusted
/// in any case.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read, or that holds no certificate.
pub fn trust_certificates(file: &Path) -> Result<()> {
    let fail = Error::file("use the certificates in", file);
    zstn_net::tls::trust(file).map_err(fail)
}

/// Returns the certificates that are trusted, which agents share.
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
    /// Returns a sentence for people, without address.
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
