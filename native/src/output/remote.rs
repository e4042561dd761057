//! Outputs at addresses: object stores and web servers. A result of several files is made
//! on disk and then sent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::stream::{Put, Receiver};
use super::{FolderPlace, Output, OutputFolder, Staging};
use crate::source::{HttpOptions, Location, check_absent, is_server};
#[cfg(feature = "store")]
use crate::source::{is_store, store};
use crate::{Error, Result, display};

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

/// A file, several files in one folder, or a folder to be sent to an address. All files
/// are first made in the folder for temporary files (`TMPDIR`).
pub(crate) struct Publication<'a> {
    staging: Staging,
    /// The address without a trailing slash.
    url: &'a str,
    name: String,
    replace: bool,
    http: &'a HttpOptions,
}

impl<'a> Publication<'a> {
    /// Begins the result that will appear at `url`.
    ///
    /// # Errors
    /// [`Error::Exists`] if an existing file may not be replaced; an address that
    /// cannot be written to.
    pub(crate) fn begin(url: &'a str, replace: bool, http: &'a HttpOptions) -> Result<Self> {
        let folder = url.trim_end_matches('/');
        match folder.len() == url.len() {
            true => check(url, replace, http)?,
            false => OutputFolder::check(url, http)?,
        }
        let name = Location::url(folder).file_name();
        // The name is used for a file in the folder for temporary files.
        let is_plain = |name: &String| !name.contains(['/', '\\', '\0']) && name != "..";
        let no_name = || Error::Usage(format!("{url} does not end in the name of a file"));
        Ok(Self {
            staging: Staging::temporary()?,
            url: folder,
            name: name.filter(is_plain).ok_or_else(no_name)?,
            replace,
            http,
        })
    }

    /// Returns the local path for making the result.
    pub(crate) fn path(&self) -> PathBuf {
        self.staging.path(&self.name)
    }

    /// Sends `files`, either a single folder or files of which the last one completes
    /// the others, and returns their addresses. If that fails and `replace` is false,
    /// the files that were already sent are deleted if possible.
    pub(crate) fn finish(self, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if let [folder] = files
            && folder.is_dir()
        {
            self.folder(folder)?;
            return Ok(vec![PathBuf::from(&*display::address(self.url))]);
        }
        let urls = files.iter().map(|file| self.url_of(file));
        let urls = urls.collect::<Result<Vec<String>>>()?;
        // `Output::to_url` checks a single file itself.
        for url in urls.iter().filter(|_| urls.len() > 1) {
            check(url, self.replace, self.http)?;
        }
        for (number, (file, url)) in files.iter().zip(&urls).enumerate() {
            let output = Output::to_url(url, self.replace, self.http);
            if let Err(error) = output.and_then(|output| send(file, output)) {
                if !self.replace {
                    delete(&urls[..number], self.http);
                }
                return Err(error);
            }
        }
        let shown = urls
            .iter()
            .map(|url| PathBuf::from(&*display::address(url)));
        Ok(shown.collect())
    }

    fn url_of(&self, file: &Path) -> Result<String> {
        let name = file.strip_prefix(self.staging.path(""));
        let name = name.unwrap_or(file).to_string_lossy();
        if *name == self.name {
            return Ok(self.url.into());
        }
        match Location::url(self.url).sibling(&name) {
            Some(Location::Url(url)) => Ok(url),
            _ => Err(Error::Usage(format!("{} has no folder", self.url))),
        }
    }

    fn folder(&self, folder: &Path) -> Result<()> {
        let unreadable = || Error::file("read the folder", folder);
        let entries = folder.read_dir().map_err(|error| unreadable()(error))?;
        let names = entries.map(|entry| Ok(PathBuf::from(entry?.file_name())));
        let names: io::Result<Vec<PathBuf>> = names.collect();
        let names = names.map_err(|error| unreadable()(error))?;
        let is_index = |name: &PathBuf| Location::Path(name.clone()).is_index();
        let (indices, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_index);
        let place = FolderPlace::Url(self.url.into());
        let target = OutputFolder::create(&place, self.http)?;
        let mut names = others.iter().chain(&indices);
        let sent = names.try_for_each(|name| send(&folder.join(name), target.file(name)?));
        target.end(sent)
    }
}

/// Copies the file at `path` to `output` and completes it.
fn send(path: &Path, mut output: Output) -> Result<()> {
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    let metadata = file.metadata().map_err(Error::file("read", path))?;
    output.expect(metadata.len());
    output.copy(&mut file)?;
    output.finish()
}
