//! Connections to stores, which objects of the same bucket share.

use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, HeaderMap, HeaderValue, ObjectStore};

use crate::address::Service;
use crate::http_client::{Connector, Purpose, retries};
use crate::object_store_error::Failure;
use crate::{Address, Environment, Error, Observer, Result, credentials};

/// The number of connections that are cached. A program uses few buckets; beyond this
/// number the oldest connection is dropped from the cache.
const MAX_KEPT: usize = 16;

/// A bucket or container, ready for requests.
pub(crate) struct Connection {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) parts: Arc<dyn MultipartStore>,
    /// Completes an upload on the condition that the object does not exist; `None` if
    /// the service has no such condition.
    pub(crate) creator: Option<Arc<dyn MultipartStore>>,
}

struct Kept {
    /// The process ID: a forked child must not use the connections of its parent.
    process: u32,
    root: String,
    options: StoreOptions,
    purpose: Purpose,
    connection: Arc<Connection>,
}

/// Returns a connection to the store of `address`, shared with earlier calls for
/// the same bucket and options.
pub(crate) fn connect(
    address: &Address,
    options: &StoreOptions,
    purpose: Purpose,
) -> Result<Arc<Connection>> {
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let find = |kept: &[Kept]| {
        let mut kept = kept.iter();
        let same = kept.find(|kept| {
            kept.process == process::id()
                && kept.root == address.root()
                && kept.purpose == purpose
                && kept.options == *options
        })?;
        Some(Arc::clone(&same.connection))
    };
    if let Some(connection) = find(&KEPT.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(connection);
    }
    // The lock is not held here, because this may wait a second for a metadata service.
    let connection = Arc::new(make(address, options, purpose)?);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(connection) = find(&kept) {
        return Ok(connection);
    }
    if kept.len() >= MAX_KEPT {
        kept.remove(0);
    }
    kept.push(Kept {
        process: process::id(),
        root: address.root().into(),
        options: options.clone(),
        purpose,
        connection: Arc::clone(&connection),
    });
    Ok(connection)
}

fn make(address: &Address, options: &StoreOptions, purpose: Purpose) -> Result<Connection> {
    credentials::check(address, &options.environment)?;
    let failed = |error| not_made(address, &error);
    Ok(match address.service() {
        Service::Memory => {
            static MEMORY: OnceLock<Arc<InMemory>> = OnceLock::new();
            let store = Arc::clone(MEMORY.get_or_init(Arc::default));
            Connection {
                objects: store.clone(),
                parts: store,
                creator: None,
            }
        }
        Service::S3 => {
            refuse_plain_http(
                address,
                options,
                "AWS",
                &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
            )?;
            let store = Arc::new(s3(address, options, purpose, HeaderMap::new()).map_err(failed)?);
            let only_new = (http_header("if-none-match"), HeaderValue::from_static("*"));
            let conditions = options.environment.get("AWS_CONDITIONAL_PUT");
            let creator = match (purpose, conditions) {
                (Purpose::Read, _) | (_, Some("disabled")) => None,
                _ => {
                    let headers = HeaderMap::from_iter([only_new]);
                    Some(Arc::new(s3(address, options, purpose, headers).map_err(failed)?) as _)
                }
            };
            Connection {
                objects: store.clone(),
                parts: store,
                creator,
            }
        }
        Service::Azure => {
            refuse_plain_http(
                address,
                options,
                "AZURE",
                &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"],
            )?;
            let store = Arc::new(azure(address, options, purpose).map_err(failed)?);
            Connection {
                objects: store.clone(),
                parts: store,
                creator: None,
            }
        }
        Service::Google => {
            let store = Arc::new(google(address, options, purpose).map_err(failed)?);
            Connection {
                objects: store.clone(),
                parts: store,
                creator: None,
            }
        }
    })
}

/// Passes the environment variables with a prefix to a builder. Variables that the
/// `object_store` crate does not know are ignored, as they belong to other programs.
macro_rules! with_variables {
    ($builder:expr, $options:expr, $prefix:literal) => {
        $options.environment.with_prefix($prefix).fold(
            $builder,
            |builder, (name, value)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            },
        )
    };
}

fn s3(
    address: &Address,
    options: &StoreOptions,
    purpose: Purpose,
    headers: HeaderMap,
) -> object_store::Result<AmazonS3> {
    let builder = AmazonS3Builder::new()
        // Deletes objects one by one: every server supports that, and errors have a
        // status.
        .with_disable_bulk_delete(true)
        .with_client_options(ClientOptions::new().with_default_headers(headers))
        .with_retry(retries(&options.limits, purpose))
        .with_http_connector(Connector::new(options, purpose));
    with_variables!(builder, options, "AWS_")
        .with_url(address.root())
        .build()
}

fn azure(
    address: &Address,
    options: &StoreOptions,
    purpose: Purpose,
) -> object_store::Result<MicrosoftAzure> {
    let builder = MicrosoftAzureBuilder::new()
        .with_retry(retries(&options.limits, purpose))
        .with_http_connector(Connector::new(options, purpose));
    let mut builder = with_variables!(builder, options, "AZURE_").with_url(address.root());
    if let Some(endpoint) = options.environment.get("IDENTITY_ENDPOINT") {
        builder = builder.with_msi_endpoint(endpoint);
    }
    builder.build()
}

fn google(
    address: &Address,
    options: &StoreOptions,
    purpose: Purpose,
) -> object_store::Result<GoogleCloudStorage> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_retry(retries(&options.limits, purpose))
        .with_http_connector(Connector::new(options, purpose));
    if let Some(path) = options.environment.get("SERVICE_ACCOUNT") {
        builder = builder.with_service_account_path(path);
    }
    with_variables!(builder, options, "GOOGLE_")
        .with_url(address.root())
        .build()
}

/// Refuses an unencrypted endpoint unless it is allowed. The client would refuse it
/// too, but its message does not explain how to allow it.
fn refuse_plain_http(
    address: &Address,
    options: &StoreOptions,
    prefix: &str,
    endpoints: &[&str],
) -> Result<()> {
    let environment = &options.environment;
    let endpoint = environment.first(endpoints).unwrap_or_default();
    let allowed = format!("{prefix}_ALLOW_HTTP");
    if !endpoint.starts_with("http://") || environment.is_on(&allowed) {
        return Ok(());
    }
    Err(Error::Environment {
        url: address.url(),
        detail: format!("the endpoint is not encrypted; to use it anyway, set {allowed}=true"),
    })
}

/// Returns the error for settings that do not yield a connection.
fn not_made(address: &Address, error: &object_store::Error) -> Error {
    let source = std::error::Error::source(error);
    let reason = source.map_or_else(|| error.to_string(), ToString::to_string);
    match Failure::new(error).into_error(address) {
        Error::Server { url, .. } => Error::Environment {
            url,
            detail: format!("the environment variables for this store cannot be used: {reason}"),
        },
        other => other,
    }
}

fn http_header(name: &'static str) -> reqwest::header::HeaderName {
    reqwest::header::HeaderName::from_static(name)
}

/// Credentials, time limits, retries and an observer of requests to a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Environment variables with credentials, regions and endpoints.
    pub environment: Environment,
    /// Time limits and retries.
    pub limits: RequestLimits,
    /// Receives every finished request.
    pub observer: Option<Observer>,
}

impl StoreOptions {
    /// Returns default options with these variables instead of the variables of the
    /// process.
    #[must_use]
    pub fn with_environment(environment: Environment) -> Self {
        Self {
            environment,
            ..Self::default()
        }
    }
}

/// Time limits and retries of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestLimits {
    /// Number of times a request is retried after a transient failure: a broken
    /// connection, a stall, or status 408, 429 or 5xx. 3 by default.
    pub retries: usize,
    /// Time limit for connecting. 20 seconds by default.
    pub connect_timeout: Duration,
    /// The longest wait for the next byte of a response. On Linux, it is also the
    /// longest time that an upload waits for the server to accept a byte; elsewhere, a
    /// part must be sent within 10 minutes. 30 seconds by default.
    pub idle_timeout: Duration,
    /// Time after which a failed read is not retried. Writes have four times as long.
    /// 55 seconds by default.
    pub give_up_after: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            retries: 3,
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30),
            give_up_after: Duration::from_secs(55),
        }
    }
}
