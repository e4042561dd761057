//! Destinations whose bytes cannot be revised once they are written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use super::temporary;
use crate::report::Uploaded;
use crate::source::{HttpOptions, put_watched};
use crate::{Error, Progress, Result};

/// Receives the bytes of an output in order, as they become final.
pub(super) enum Receiver<'a> {
    Writer(Box<dyn Write + Send + 'a>),
    Stdout,
    /// A pipe or a device. It is opened when the first bytes arrive, because opening a
    /// pipe waits for its reader.
    Stream(PathBuf, Option<File>),
    /// A file on a web server. It is sent by one request that has to state its length,
    /// so all bytes wait until the file is complete.
    Server(Box<Put>),
    /// An object in a store, which exists only when it is complete.
    #[cfg(feature = "store")]
    Upload(Box<zstn_store::Upload>),
}

/// A file to be sent to a web server.
pub(super) struct Put {
    pub(super) url: String,
    pub(super) replace: bool,
    pub(super) http: HttpOptions,
}

impl Receiver<'_> {
    /// Returns whether it accepts bytes before the total length is known.
    pub(super) fn takes_early(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// Announces the greatest length that the output can have.
    pub(super) fn expect(&mut self, len_bytes: u64) {
        #[cfg(feature = "store")]
        if let Self::Upload(upload) = self {
            upload.expect(len_bytes);
        }
        #[cfg(not(feature = "store"))]
        let _ = len_bytes;
    }

    /// Takes the next bytes; `name` is the name of the output in messages.
    pub(super) fn take(&mut self, bytes: &[u8], name: &str) -> Result<()> {
        let written = match self {
            Self::Writer(writer) => writer.write_all(bytes),
            Self::Stdout => io::stdout().lock().write_all(bytes),
            Self::Stream(path, stream) => {
                opened(path, stream).and_then(|mut to| to.write_all(bytes))
            }
            Self::Server(_) => Ok(()),
            #[cfg(feature = "store")]
            // The implementation of `Write` would hide the type of the error.
            Self::Upload(upload) => return Ok(zstn_store::Upload::write(upload, bytes)?),
        };
        written.map_err(|error| Error::io(format!("write {name}"), error))
    }

    /// Ends the output. `rest` contains the bytes that were not taken early. `progress`
    /// can end the work until the output appears.
    pub(super) fn complete(
        self,
        name: &str,
        rest: &File,
        progress: &dyn Progress,
    ) -> Result<Option<Uploaded>> {
        let flushed = match self {
            Self::Writer(mut writer) => writer.flush(),
            Self::Stdout => io::stdout().lock().flush(),
            // The pipe is opened even if there are no bytes, so that its reader sees
            // the end.
            Self::Stream(path, mut stream) => {
                opened(&path, &mut stream).and_then(|mut to| to.flush())
            }
            Self::Server(put_to) => {
                let Put { url, replace, http } = *put_to;
                let metadata = rest.metadata();
                let len_bytes = metadata
                    .map_err(|error| temporary::failed("read")(error))?
                    .len();
                // The server has the complete file once the last bytes are sent.
                let sent = |sent_bytes| match sent_bytes == len_bytes {
                    true => progress.publishing(),
                    false => progress.check(),
                };
                put_watched(&url, rest, len_bytes, &http, replace, &sent)?;
                return Ok(None);
            }
            #[cfg(feature = "store")]
            Self::Upload(upload) => {
                progress.publishing()?;
                let report = upload.finish()?;
                return Ok(Some(Uploaded {
                    parts: report.parts,
                    parts_reused: report.parts_reused,
                }));
            }
        };
        flushed.map_err(|error| Error::io(format!("complete {name}"), error))?;
        Ok(None)
    }

    /// Discards the parts that an upload has sent; without this, it could be continued.
    pub(super) fn discard(self) {
        #[cfg(feature = "store")]
        if let Self::Upload(upload) = self {
            // The caller reports the error that led to this call. Unfinished uploads
            // that remain are removed by the store's lifecycle rules.
            let _ = upload.abort();
        }
    }
}

fn opened<'f>(path: &PathBuf, stream: &'f mut Option<File>) -> io::Result<&'f File> {
    Ok(match stream {
        Some(stream) => stream,
        None => stream.insert(OpenOptions::new().write(true).open(path)?),
    })
}
