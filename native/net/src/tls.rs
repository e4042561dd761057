//! The trusted certificates.
//!
//! These are the system's certificates, the ones in `SSL_CERT_FILE` and `SSL_CERT_DIR`,
//! and the ones passed to [`trust`]. On macOS and Windows, whose certificate stores are
//! not files, the two variables replace the system's certificates.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, io};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_certs_from_paths;

/// The certificates of this process, read on first use.
static ROOTS: Mutex<Option<Arc<Roots>>> = Mutex::new(None);
/// The certificates passed to [`trust`].
static GIVEN: Mutex<Vec<CertificateDer<'static>>> = Mutex::new(Vec::new());

/// A set of trusted certificates.
#[derive(Debug, Default)]
pub struct Roots {
    certificates: Vec<CertificateDer<'static>>,
    problems: Vec<String>,
}

impl Roots {
    /// Returns the certificates that this process trusts.
    #[must_use]
    pub fn of_process() -> Arc<Self> {
        let mut roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(roots.get_or_insert_with(|| Arc::new(Self::load())))
    }

    /// Returns the end of an error message about an untrusted server: what to do, and
    /// which variables name no readable certificate.
    #[must_use]
    pub fn advice(&self) -> String {
        let mut advice = String::from(
            "; if your network or server has an authority of its own, name its certificate with \
             SSL_CERT_FILE or --ca-certificate",
        );
        for problem in &self.problems {
            advice.push_str(&format!(" ({problem})"));
        }
        advice
    }

    fn load() -> Self {
        let mut roots = Self::default();
        let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        roots.certificates.extend(given.iter().cloned());
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(file) = set("SSL_CERT_FILE") {
            roots.add("SSL_CERT_FILE", Some(Path::new(&file)), None);
        }
        for folder in set("SSL_CERT_DIR").iter().flat_map(env::split_paths) {
            roots.add("SSL_CERT_DIR", None, Some(&folder));
        }
        roots.certificates.extend(system());
        roots
    }

    fn add(&mut self, variable: &str, file: Option<&Path>, folder: Option<&Path>) {
        let mut found = load_certs_from_paths(file, folder);
        let path = file.or(folder).unwrap_or(Path::new(""));
        if found.certs.is_empty() {
            let why = found.errors.first();
            let why = why.map_or_else(|| "it contains no certificate".into(), ToString::to_string);
            let path = path.display();
            self.problems.push(format!(
                "{variable} names {path}, which cannot be used: {why}"
            ));
        }
        self.certificates.append(&mut found.certs);
    }
}

/// Adds the certificates in a PEM file to the trusted ones, for all connections that
/// this process makes afterwards.
///
/// # Errors
/// The file cannot be read, or it contains no certificate.
pub fn trust(file: &Path) -> io::Result<()> {
    std::fs::File::open(file)?;
    let found = load_certs_from_paths(Some(file), None);
    if found.certs.is_empty() {
        let why = found.errors.first();
        let why = why.map_or_else(
            || "it contains no certificate in the format PEM".into(),
            ToString::to_string,
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.extend(found.certs);
    *ROOTS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(())
}

/// Returns the TLS settings for connections, with the certificates of this process.
///
/// # Errors
/// The TLS implementation does not support the default protocol versions.
pub fn config() -> Result<ClientConfig, rustls::Error> {
    let mut store = RootCertStore::empty();
    // Some systems contain certificates that cannot be parsed; they are ignored.
    let roots = Roots::of_process();
    store.add_parsable_certificates(roots.certificates.iter().cloned());
    with_store(store)
}

/// Returns the TLS settings of a client that makes unencrypted connections only.
pub(crate) fn config_without_certificates() -> Result<ClientConfig, rustls::Error> {
    with_store(RootCertStore::empty())
}

fn with_store(store: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth())
}

/// Returns the certificates of the system, even if `SSL_CERT_FILE` or `SSL_CERT_DIR` is
/// set.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn system() -> Vec<CertificateDer<'static>> {
    /// Paths of certificate bundles on Linux distributions and BSDs. Where a system has
    /// several of them, they are links to the same file.
    const BUNDLES: [&str; 7] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
        "/usr/local/share/certs/ca-root-nss.crt",
        "/etc/openssl/certs/ca-certificates.crt",
    ];
    let bundle = BUNDLES
        .map(std::path::PathBuf::from)
        .into_iter()
        .find(|path| path.exists());
    if let Some(bundle) = bundle {
        let found = load_certs_from_paths(Some(&bundle), None).certs;
        if !found.is_empty() {
            return found;
        }
    }
    let folders = openssl_probe::candidate_cert_dirs();
    folders
        .flat_map(|folder| load_certs_from_paths(None, Some(folder)).certs)
        .collect()
}

/// Returns the certificates of the system, or the ones that `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name if these variables are set.
#[cfg(not(all(unix, not(target_vendor = "apple"))))]
fn system() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}
