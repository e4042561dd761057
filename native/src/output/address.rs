//! Outputs at addresses: object stores and web servers.

use super::receiver::{Put, Receiver};
use crate::source::{HttpOptions, check_absent, is_server};
#[cfg(feature = "store")]
use crate::source::{is_store, store};
use crate::{Error, Location, Result};

/// Begins the file at `url`. If a file exists there that may not be replaced, either
/// this call or the completion of the file fails.
pub(super) fn receiver(url: &str, replace: bool, http: &HttpOptions) -> Result<Receiver<'static>> {
    #[cfg(feature = "store")]
    if is_store(url) {
        let mut options = zstn_store::UploadOptions::default();
        options.store = store::options(http);
        options.replace = replace;
        options.journal_folder = zstn_store::default_journal_folder();
        // Without a writable folder for journals, as in many containers, the upload
        // cannot be continued later, but it still works.
        options.journal_is_optional = true;
        let upload = zstn_store::Upload::begin(&store::address(url)?, &options)?;
        return Ok(Receiver::Upload(Box::new(upload)));
    }
    check_server(url, replace, http)?;
    Ok(Receiver::Server(Box::new(Put {
        url: url.into(),
        replace,
        http: http.clone(),
    })))
}

/// Refuses an address that cannot be written to, and the address of an existing file
/// that may not be replaced, if that can be determined before writing.
pub(super) fn check(url: &str, replace: bool, http: &HttpOptions) -> Result<()> {
    #[cfg(feature = "store")]
    if is_store(url) {
        return match !replace && store::exists(url, http)? {
            true => Err(Error::exists(Location::url(url))),
            false => Ok(()),
        };
    }
    check_server(url, replace, http)
}

fn check_server(url: &str, replace: bool, http: &HttpOptions) -> Result<()> {
    match (is_server(url), replace) {
        (true, true) => Ok(()),
        (true, false) => check_absent(url, http),
        (false, _) => Err(Error::Usage(format!(
            "{url}: nothing can be written there; name a local path, {}",
            match cfg!(feature = "store") {
                true => "an http(s) address, or an object in a store, such as s3://bucket/name",
                false => "or an http(s) address; this program was built without object stores",
            }
        ))),
    }
}

/// Deletes objects that this process wrote, in reverse order. The caller reports the
/// error that led to this call, so a failure here only stops the deletion.
pub(super) fn delete(urls: &[String], http: &HttpOptions) {
    #[cfg(feature = "store")]
    for url in urls.iter().rev().filter(|url| is_store(url)) {
        if store::delete(url, http).is_err() {
            return;
        }
    }
    #[cfg(not(feature = "store"))]
    let _ = (urls, http);
}
