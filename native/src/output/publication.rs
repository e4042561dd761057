//! Results that are made on disk and then sent to an address.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Contents, FolderPlace, Output, OutputFolder, Staging, address};
use crate::source::{HttpOptions, Location};
use crate::{Error, Result};

/// A file, files next to each other, or a folder, on the way to an address. All
/// of it is made in the folder for temporary files (`TMPDIR`) first.
pub(crate) struct Publication<'a> {
    staging: Staging,
    url: &'a str,
    name: String,
    replace: bool,
    http: &'a HttpOptions,
}

impl<'a> Publication<'a> {
    /// Begins what is to appear at `url`.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is something that may not be replaced; an
    /// address that nothing can be written to.
    pub(crate) fn begin(url: &'a str, replace: bool, http: &'a HttpOptions) -> Result<Self> {
        let url = url.trim_end_matches('/');
        address::check(url, replace, http)?;
        let name = Location::url(url).file_name();
        let no_name = || Error::Usage(format!("{url} does not name a file"));
        Ok(Self {
            staging: Staging::temporary()?,
            url,
            name: name.ok_or_else(no_name)?,
            replace,
            http,
        })
    }

    /// Returns the path to make it at.
    pub(crate) fn path(&self) -> PathBuf {
        self.staging.path(&self.name)
    }

    /// Sends `files`, the last of which makes the others a whole, or the folder
    /// that it is; returns their addresses.
    pub(crate) fn finish(self, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let mut addresses = Vec::new();
        for file in files {
            let name = file.strip_prefix(self.staging.path(""));
            let name = name.unwrap_or(file).to_string_lossy();
            let url = match *name == self.name {
                true => self.url.to_owned(),
                false => match Location::url(self.url).sibling(&name) {
                    Some(Location::Url(url)) => url,
                    _ => return Err(Error::Usage(format!("{} has no folder", self.url))),
                },
            };
            match file.is_dir() {
                true => self.folder(file)?,
                false => self.send(file, Output::to_url(&url, self.replace, self.http)?)?,
            }
            addresses.push(url.into());
        }
        Ok(addresses)
    }

    fn folder(&self, folder: &Path) -> Result<()> {
        let unreadable = || Error::file("read the folder", folder);
        let entries = folder.read_dir().map_err(|error| unreadable()(error))?;
        let names = entries.map(|entry| Ok(PathBuf::from(entry?.file_name())));
        let names: io::Result<Vec<PathBuf>> = names.collect();
        let names = names.map_err(|error| unreadable()(error))?;
        let place = FolderPlace::Url(self.url.into());
        let target = OutputFolder::create(&place, &Contents::default(), self.http)?;
        for name in names {
            self.send(&folder.join(&name), target.file(&name)?)?;
        }
        target.finish()
    }

    fn send(&self, path: &Path, mut output: Output) -> Result<()> {
        let mut file = File::open(path).map_err(Error::file("open", path))?;
        let mut piece = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut piece);
            match read.map_err(Error::file("read", path))? {
                0 => break,
                len => output.write_final(&piece[..len])?,
            }
        }
        output.finish()
    }
}
