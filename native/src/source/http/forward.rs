//! Unencrypted requests through a proxy, which receives the whole address (RFC 9112,
//! section 3.2.2).

use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};
use ureq::{Error, config::Config};

/// Resolves the address of the proxy instead of the server's: a proxy may know names
/// that this machine does not.
#[derive(Debug)]
pub(super) struct ToProxy {
    proxy: Uri,
    resolver: DefaultResolver,
}

impl ToProxy {
    pub(super) fn new(proxy: Uri) -> Self {
        Self {
            proxy,
            resolver: DefaultResolver::default(),
        }
    }
}

impl Resolver for ToProxy {
    fn resolve(
        &self,
        _: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        self.resolver.resolve(&self.proxy, config, timeout)
    }
}

/// Makes connections that send the whole address in the first line of a request.
#[derive(Debug)]
pub(super) struct Forwarding;

impl<In: Transport> Connector<In> for Forwarding {
    type Out = Forwarded<In>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let host = details.uri.authority().map_or("", |host| host.as_str());
        Ok(chained.map(|inner| Forwarded {
            inner,
            prefix: Some(format!("http://{host}").into()),
        }))
    }
}

/// A connection that carries one request.
#[derive(Debug)]
pub(super) struct Forwarded<In> {
    inner: In,
    /// The text to insert before the path in the first line, until it has been sent.
    prefix: Option<Vec<u8>>,
}

impl<In: Transport> Transport for Forwarded<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let Some(prefix) = self.prefix.take() else {
            return self.inner.transmit_output(amount, timeout);
        };
        let output = self.inner.buffers().output();
        let longer = amount + prefix.len();
        let path = output[..amount].iter().position(|&byte| byte == b' ');
        let path = path.map(|space| space + 1);
        let Some(path) = path.filter(|_| longer <= output.len()) else {
            let why = "the head of the request is too long for a proxy";
            return Err(Error::Other(why.into()));
        };
        output.copy_within(path..amount, path + prefix.len());
        output[path..path + prefix.len()].copy_from_slice(&prefix);
        self.inner.transmit_output(longer, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
    }

    // The connection is not reused: the start of another request in the stream, whose
    // first line would also need the prefix, cannot be recognised here.
    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
