//! Headers that are sent to one origin only, such as a token.

use std::fmt;

use http::request::Builder;
use http::{HeaderName, HeaderValue, header};

use super::HttpOptions;
use super::origin::{Origin, origin};
use crate::source::hub::{self, HubFile, Login};
use crate::source::scheme::Scheme;
use crate::{Error, Result, display};

/// Headers that a caller must not set, because the reader sets them itself or because
/// they frame a request.
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

impl HttpOptions {
    /// Sends `Authorization: Bearer TOKEN` to the origin (scheme, host and port) of
    /// `address`, in the same way as [`HttpOptions::header`].
    ///
    /// # Errors
    /// The errors of [`HttpOptions::header`].
    ///
    /// ```
    /// # fn main() -> zstn::Result<()> {
    /// let options = zstn::source::HttpOptions::default();
    /// let options = options.token("https://example.org", "the token")?;
    /// assert!(!format!("{options:?}").contains("the token"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(self, address: &str, token: &str) -> Result<Self> {
        self.header(address, "Authorization", &format!("Bearer {token}"))
    }

    /// Sends a header with requests to the origin (scheme, host and port) of `address`.
    /// Other origins do not receive it, and neither does any request after a redirect
    /// to another origin. `Debug` output and error messages do not contain the value. A
    /// header with the same name for the same origin is replaced.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `address` is not an http(s) address, if
    /// the name or the value contains invalid characters, or if the reader sets the
    /// header itself, as it does with `Range`.
    pub fn header(mut self, address: &str, name: &str, value: &str) -> Result<Self> {
        self.secrets.add(address, name, value)?;
        Ok(self)
    }

    /// Reads addresses with the scheme `hf` from the hub at `endpoint`, using `token`,
    /// which no other origin receives.
    ///
    /// By default the hub is `$HF_ENDPOINT`, or <https://huggingface.co>. The default
    /// token is `$HF_TOKEN`, or the one in the file that `hf auth login` writes
    /// (`$HF_TOKEN_PATH`, `$HF_HOME/token`). If `HF_HUB_DISABLE_IMPLICIT_TOKEN=1` is
    /// set, no token is sent.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `endpoint` is not an http(s) address.
    pub fn hub(mut self, endpoint: &str, token: Option<&str>) -> Result<Self> {
        check_endpoint(endpoint)?;
        let endpoint = hub::without_slash(endpoint).into();
        self.hub = Some((endpoint, Login::of(token)));
        Ok(self)
    }

    /// Returns the same options without the secret headers and without the hub.
    #[doc(hidden)]
    #[must_use]
    pub fn limits(&self) -> Self {
        Self {
            secrets: Secrets::default(),
            hub: None,
            ..self.clone()
        }
    }

    /// Returns the file at an address in a hub, and adds the hub's token to the
    /// secrets. An `Authorization` header that the caller has already given for the hub
    /// takes precedence.
    pub(super) fn log_in(&mut self, address: &str) -> Result<HubFile> {
        hub::offline::check(&display::address(address))?;
        let (endpoint, login) = match self.hub.take() {
            Some(hub) => hub,
            None => (hub::endpoint(), Login::of_process()?),
        };
        check_endpoint(&endpoint)?;
        let file = HubFile::new(address, endpoint, login)?;
        if let Some(token) = file.login().token()
            && !self.secrets.has(file.endpoint(), &header::AUTHORIZATION)
        {
            let value = format!("Bearer {token}");
            self.secrets.add(file.endpoint(), "Authorization", &value)?;
        }
        Ok(file)
    }
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    match (Scheme::find(endpoint), origin(endpoint)) {
        (Some(Scheme::Http), Some(_)) => Ok(()),
        _ => Err(Error::Usage(
            "the address of the hub, which HF_ENDPOINT may give, has to be like \
             https://huggingface.co"
                .into(),
        )),
    }
}
