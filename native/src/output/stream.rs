//! Streamed outputs: their bytes are passed on as they become final, and cannot be revised
//! afterwards.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::temporary;
use crate::report::Uploaded;
use crate::source::{HttpOptions, put_watched};
use crate::{Error, Progress, Result};

/// The number of bytes that are read back from the temporary file at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A temporary file with the bytes that are not final yet. Earlier bytes have been
/// passed to the receiver.
pub(super) struct Pending<'a> {
    /// The offset of the file's first byte in the output.
    settled_bytes: u64,
    file: File,
    takes_early: bool,
    /// True while all bytes wait in the file, even final ones ([`Pending::hold`]).
    is_held: bool,
    /// All access is exclusive; the lock only makes the type `Sync`.
    receiver: Mutex<Receiver<'a>>,
    /// Name of the receiver in messages.
    name: String,
}

impl<'a> Pending<'a> {
    pub(super) fn new(name: String, receiver: Receiver<'a>) -> Result<Self> {
        Ok(Self {
            settled_bytes: 0,
            file: temporary::create()?,
            takes_early: receiver.takes_early(),
            is_held: false,
            receiver: Mutex::new(receiver),
            name,
        })
    }

    /// Returns the file with the bytes that may still be revised.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the position in the temporary file that corresponds to an offset in the
    /// output.
    ///
    /// # Panics
    /// Panics if the offset is among the final bytes.
    pub(super) fn position(&self, offset_bytes: u64) -> u64 {
        let position = offset_bytes.checked_sub(self.settled_bytes);
        position.expect("final bytes are not revised")
    }

    /// Keeps all bytes in the file until [`Pending::release`], so that even final ones
    /// can be revised. This method must be called before anything is written.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Makes all written bytes final and passes them to the receiver. Later bytes are
    /// passed on as they become final.
    pub(super) fn release(&mut self) -> Result<()> {
        self.is_held = false;
        self.settle()
    }

    /// Returns whether final bytes are passed to the receiver immediately.
    pub(super) fn hands_over(&self) -> bool {
        self.takes_early && !self.is_held
    }

    /// Passes all bytes in the file to the receiver and empties the file. Does nothing
    /// while the bytes are held, or if the receiver takes bytes only when the output is
    /// complete.
    pub(super) fn settle(&mut self) -> Result<()> {
        if !self.hands_over() {
            return Ok(());
        }
        let unreadable = || temporary::failed("read");
        let metadata = self.file.metadata();
        let len_bytes = metadata.map_err(|error| unreadable()(error))?.len();
        if len_bytes == 0 {
            return Ok(());
        }
        let rewound = self.file.rewind();
        rewound.map_err(|error| unreadable()(error))?;
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(len_bytes).unwrap_or(usize::MAX))];
        let mut left = len_bytes;
        while left > 0 {
            let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = self.file.read_exact(&mut piece[..len]);
            read.map_err(|error| unreadable()(error))?;
            self.take(&piece[..len])?;
            left -= len as u64;
        }
        let cleared = self.file.set_len(0).and_then(|()| self.file.rewind());
        cleared.map_err(|error| temporary::failed("clear")(error))?;
        self.settled_bytes += len_bytes;
        Ok(())
    }

    /// Writes bytes that are already final. They bypass the file if the receiver takes
    /// bytes early.
    pub(super) fn write_final(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.hands_over() {
            let written = self.file.write_all(bytes);
            return written.map_err(|error| temporary::failed("write")(error));
        }
        self.settle()?;
        self.take(bytes)?;
        self.settled_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Announces the greatest length of the output.
    pub(super) fn expect(&mut self, len_bytes: u64) {
        let receiver = self.receiver.get_mut();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.expect(len_bytes);
    }

    /// Passes the remaining bytes to the receiver and ends the output.
    pub(super) fn complete(mut self, progress: &dyn Progress) -> Result<Option<Uploaded>> {
        self.release()?;
        let receiver = self.receiver.into_inner();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.complete(&self.name, &self.file, progress)
    }

    /// Abandons the output; see [`Receiver::discard`].
    pub(super) fn discard(self) {
        let receiver = self.receiver.into_inner();
        receiver.unwrap_or_else(PoisonError::into_inner).discard();
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let receiver = self.receiver.get_mut();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.take(bytes, &self.name)
    }
}

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
    /// Returns whether the receiver accepts bytes before the total length is known.
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
