//! Conversion of the `object_store` crate's errors to errors of this crate.
//!
//! The messages of that crate are not shown: they contain complete request URLs, in which
//! some services put a signature. The sources of errors are copies in which the secrets
//! of these URLs are hidden.

use std::error::Error as StdError;

use object_store::client::{HttpError, HttpErrorKind};
use zstn_net::cause::{self, BoxedError};

use crate::{Address, Error};

/// The properties of a failed request that determine its error.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) status: Option<u16>,
    /// The service's error code, such as `NoSuchBucket`.
    pub(crate) code: Option<String>,
    /// The region of the bucket, if the response contains it.
    region: Option<String>,
    /// The message of the innermost cause.
    reason: String,
    source: Option<BoxedError>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The store has no such object, bucket or upload (status 404).
    NotFound,
    /// The store denies access (status 401 or 403).
    Denied,
    /// A condition of the request is not met: status 409, 412 or 304.
    Condition,
    /// The server does not have the feature, or it is switched off.
    Unsupported,
    /// The server did not answer.
    Network,
    /// A redirect, which means that the bucket is in another region.
    Elsewhere,
    #[default]
    Other,
}

impl Failure {
    pub(crate) fn new(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        let mut texts = Vec::new();
        let mut transport = None;
        let mut current: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(cause) = current {
            if let Some(http) = cause.downcast_ref::<HttpError>() {
                transport = Some(http.kind());
            }
            texts.push(cause.to_string());
            current = cause.source();
        }
        let answer = texts.first().cloned().unwrap_or_default();
        let status = status_in(&answer);
        let kind = match error {
            E::NotFound { .. } => FailureKind::NotFound,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => FailureKind::Denied,
            E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => {
                FailureKind::Condition
            }
            E::NotSupported { .. } | E::NotImplemented { .. } => FailureKind::Unsupported,
            // The crate wraps some failures in `Generic` without considering their
            // status.
            _ => match status {
                Some(404) => FailureKind::NotFound,
                Some(401 | 403) => FailureKind::Denied,
                Some(409 | 412) => FailureKind::Condition,
                Some(405 | 501) => FailureKind::Unsupported,
                Some(300..=399) => FailureKind::Elsewhere,
                None if answer.contains("without LOCATION") => FailureKind::Elsewhere,
                None if transport.is_some() => FailureKind::Network,
                _ => FailureKind::Other,
            },
        };
        // Some responses have status 200 and an error in their body.
        let find = |name| {
            texts
                .iter()
                .find_map(|text| element(text, name))
                .map(str::to_owned)
        };
        let (code, region) = (find("Code"), find("Region"));
        let reason = match transport {
            Some(HttpErrorKind::Timeout) => "nothing came from it for too long".into(),
            _ => texts.pop().unwrap_or_default(),
        };
        Self {
            kind,
            status,
            code,
            region,
            reason,
            source: Some(cause::of(error)),
        }
    }

    /// Returns whether the service's error code is one of `codes`.
    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        self.code
            .as_deref()
            .is_some_and(|code| codes.contains(&code))
    }

    /// Returns the error for a request to `address`.
    pub(crate) fn into_error(self, address: &Address) -> Error {
        let url = address.url();
        if self.is(&["NoSuchBucket", "ContainerNotFound"]) {
            let root = address.root();
            let container = root
                .rsplit_once("//")
                .map_or(root, |(_, container)| container);
            let container = container.split('@').next().unwrap_or(container).to_owned();
            return Error::NoContainer { url, container };
        }
        if self.kind == FailureKind::Elsewhere
            || self.is(&["AuthorizationHeaderMalformed", "PermanentRedirect"])
        {
            let region = self.region;
            return Error::WrongRegion { url, region };
        }
        if self.is(&[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "InvalidToken",
        ]) {
            let detail = self.code.map_or(String::new(), |code| format!(" ({code})"));
            return Error::Denied { url, detail };
        }
        let explained = [
            (
                &["RequestTimeTooSkewed", "RequestInTheFuture"][..],
                "the clock of this machine differs from that of the store; set it",
            ),
            (
                &["InvalidObjectState", "BlobArchived", "BlobBeingRehydrated"],
                "the object is archived and cannot be read as it is; restore it first",
            ),
        ];
        if let Some((_, why)) = explained.iter().find(|(codes, _)| self.is(codes)) {
            let code = self.code.unwrap_or_default();
            let status = self
                .status
                .map_or_else(String::new, |status| format!("{status} "));
            return Error::Server {
                url,
                status: self.status,
                source: self.source,
                detail: format!("{status}({code}): {why}"),
            };
        }
        match self.kind {
            FailureKind::NotFound => Error::NotFound { url },
            FailureKind::Denied => {
                let detail = self.code.map_or(String::new(), |code| format!(" ({code})"));
                Error::Denied { url, detail }
            }
            FailureKind::Network => Error::Network {
                url,
                detail: self.reason,
                source: self.source,
            },
            _ => Error::Server {
                detail: self.describe(),
                url,
                status: self.status,
                source: self.source,
            },
        }
    }

    fn describe(&self) -> String {
        let advice = match self.status {
            Some(429 | 500..=599) => "; try again later",
            _ => "",
        };
        match (self.status, &self.code) {
            (Some(status), Some(code)) => format!("{status} ({code}){advice}"),
            (Some(status), None) => format!("{status}{advice}"),
            (None, Some(code)) => format!("with the error {code}; try again later"),
            // Either there was no response, or the crate cannot parse it.
            (None, None) => format!("in a way that cannot be used: {}", self.reason),
        }
    }
}

/// Parses the status in a message of the `object_store` crate.
fn status_in(text: &str) -> Option<u16> {
    const BEFORE: &str = "status code: ";
    let start = text.find(BEFORE)? + BEFORE.len();
    text.get(start..start + 3)?.parse().ok()
}

/// Returns the text of an XML element if it is a short word of letters, digits and
/// hyphens, as codes and regions are. Any other text from a server is not shown.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once("</")?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (!value.is_empty() && value.len() <= 64 && value.chars().all(is_word)).then_some(value)
}
