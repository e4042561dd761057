//! The environment variables that name a store's endpoint, region and
//! credentials, and the check that there are credentials before any request is
//! made.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::address::Service;
use crate::{Address, Error, Result};

/// The address of the metadata service in all three clouds.
const METADATA: &str = "169.254.169.254:80";
/// Time limit for connecting to the metadata service, which runs on the same host or near
/// it.
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);

const S3: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
     or AWS_SKIP_SIGNATURE=true for a public bucket";
const AZURE: &str = "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, \
     or AZURE_SKIP_SIGNATURE=true for a public container";
const GOOGLE: &str = "GOOGLE_APPLICATION_CREDENTIALS, \
     or GOOGLE_SKIP_SIGNATURE=true for a public bucket";

/// Checks that there are credentials, or a metadata service that may provide them.
///
/// # Errors
/// [`Error::NoCredentials`] if neither exists.
pub(crate) fn check(address: &Address, environment: &Environment) -> Result<()> {
    let service = address.service();
    let (found, variables) = match service {
        Service::Memory => return Ok(()),
        Service::S3 => (aws(environment), S3),
        Service::Azure => (azure(environment), AZURE),
        Service::Google => (google(environment), GOOGLE),
    };
    // Credentials from the metadata service cannot help if the storage account is
    // unknown.
    let has_account = match service {
        Service::Azure => {
            let names = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"];
            has_any(environment, &names) || address.root().contains('@')
        }
        _ => true,
    };
    if found || (has_account && has_metadata_service(service, environment)) {
        return Ok(());
    }
    Err(Error::NoCredentials {
        url: address.url(),
        variables,
    })
}

fn aws(environment: &Environment) -> bool {
    environment.is_on("AWS_SKIP_SIGNATURE")
        || has_any(
            environment,
            &[
                // If only one of the two is set, the `object_store` crate reports that.
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            ],
        )
}

fn azure(environment: &Environment) -> bool {
    let switches = [
        "AZURE_SKIP_SIGNATURE",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_USE_AZURE_CLI",
    ];
    switches.iter().any(|name| environment.is_on(name))
        || has_any(
            environment,
            &[
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ACCESS_KEY",
                "AZURE_STORAGE_MASTER_KEY",
                "AZURE_STORAGE_SAS_KEY",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_STORAGE_TOKEN",
                "AZURE_STORAGE_CLIENT_SECRET",
                "AZURE_CLIENT_SECRET",
                "AZURE_FEDERATED_TOKEN_FILE",
                "AZURE_CREDENTIAL_TYPE",
                "AZURE_MSI_ENDPOINT",
                "AZURE_IDENTITY_ENDPOINT",
                "IDENTITY_ENDPOINT",
            ],
        )
}

fn google(environment: &Environment) -> bool {
    let home = environment.get("HOME").unwrap_or_default();
    let login = Path::new(home).join(".config/gcloud/application_default_credentials.json");
    environment.is_on("GOOGLE_SKIP_SIGNATURE")
        || login.is_file()
        || has_any(
            environment,
            &[
                "SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT_PATH",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_BEARER_TOKEN",
            ],
        )
}

fn has_any(environment: &Environment, names: &[&str]) -> bool {
    environment.first(names).is_some()
}

fn has_metadata_service(service: Service, environment: &Environment) -> bool {
    // These variables configure Amazon's metadata service only.
    let is_s3 = service == Service::S3;
    if is_s3 && environment.is_on("AWS_EC2_METADATA_DISABLED") {
        return false;
    }
    let endpoint = environment.get("AWS_METADATA_ENDPOINT");
    let address = endpoint
        .filter(|_| is_s3)
        .map_or_else(|| METADATA.into(), host_and_port);
    let addresses = address.to_socket_addrs();
    addresses.is_ok_and(|mut addresses| {
        addresses.any(|address| TcpStream::connect_timeout(&address, METADATA_TIMEOUT).is_ok())
    })
}

fn host_and_port(endpoint: &str) -> String {
    let rest = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match has_port {
        true => host.into(),
        false => format!("{host}:80"),
    }
}

/// Environment variables of object stores: `AWS_…`, `AZURE_…`, `GOOGLE_…` and a few
/// others. The default is the environment of the process.
///
/// `Debug` output does not contain values.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// Variables without one of the prefixes that some services need.
const NAMES: [&str; 3] = ["SERVICE_ACCOUNT", "IDENTITY_ENDPOINT", "HOME"];

impl Environment {
    /// Returns the variables of this process. Variables that are not Unicode are ignored.
    #[must_use]
    pub fn of_process() -> Self {
        // `vars()` would panic on a value that is not Unicode.
        let variables = std::env::vars_os();
        Self::from_pairs(variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    /// Returns an environment with these pairs of name and value and no others. Names
    /// that no object store uses are ignored.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        let mut variables: Vec<(String, String)> = pairs
            .filter(|(name, _): &(String, String)| {
                NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|p| name.starts_with(p))
            })
            .collect();
        variables.sort();
        Self { variables }
    }

    /// Returns the value of a variable, if it is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(known, _)| known == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Returns the value of the first of these variables that is set and not empty.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns whether a variable is set to `1`, `true`, `on`, `yes` or `y`, in any
    /// case.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default();
        ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
    }

    /// Returns the variables that have a prefix and a value, sorted by name. Names are
    /// in lower case.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        self.variables
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self::of_process()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}
