//! Names of the local files from which a later run continues.

use crate::address::Service;
use crate::{Address, Environment};

/// Returns the address together with the server, which is not a part of it.
pub(crate) fn target(address: &Address, environment: &Environment) -> String {
    let server = environment.first(match address.service() {
        Service::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
        Service::Azure => &[
            "AZURE_STORAGE_ENDPOINT",
            "AZURE_ENDPOINT",
            "AZURE_STORAGE_ACCOUNT_NAME",
        ],
        _ => &["GOOGLE_BASE_URL"],
    });
    let url = address.url();
    server.map_or_else(|| url.clone(), |server| format!("{url} at {server}"))
}

/// Returns the name, without an extension, of the files for `target`.
pub(crate) fn file_stem(target: &str) -> String {
    blake3::hash(target.as_bytes()).to_hex()[..32].to_owned()
}
