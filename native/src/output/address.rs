//! Addresses to write to.

use super::receiver::Receiver;
use crate::source::HttpOptions;
use crate::{Error, Result};

/// Begins the file at `url`. If one exists that may not be replaced, that is an
/// error now or when the file is completed.
pub(super) fn receiver(url: &str, replace: bool, http: &HttpOptions) -> Result<Receiver<'static>> {
    #[cfg(feature = "store")]
    if zstn_store::is_store(url) {
        let mut options = zstn_store::UploadOptions::default();
        options.store = crate::source::store::options(http);
        options.replace = replace;
        options.journal_folder = zstn_store::default_journal_folder();
        let address = crate::source::store::address(url)?;
        let upload = zstn_store::Upload::begin(&address, &options)?;
        return Ok(Receiver::Upload(Box::new(upload)));
    }
    let _ = (replace, http);
    Err(not_writable(url))
}

/// Refuses an address that nothing can be written to, and one of something that
/// may not be replaced as far as that is known before it is written.
pub(super) fn check(url: &str, replace: bool, http: &HttpOptions) -> Result<()> {
    #[cfg(feature = "store")]
    if zstn_store::is_store(url) {
        return match !replace && crate::source::store::exists(url, http)? {
            true => Err(Error::exists(url)),
            false => Ok(()),
        };
    }
    let _ = (replace, http);
    Err(not_writable(url))
}

fn not_writable(url: &str) -> Error {
    Error::Usage(format!("{url}: nothing can be written to such an address"))
}
