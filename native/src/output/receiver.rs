//! Where bytes go that cannot be revised once they are handed over.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// Takes the bytes of an output in order, as they become final.
pub(super) enum Receiver<'a> {
    Writer(Box<dyn Write + Send + 'a>),
    Stdout,
    /// A pipe or a device, opened when the first bytes are there: opening a pipe
    /// waits for its reader.
    Stream(PathBuf, Option<File>),
}

impl Receiver<'_> {
    /// Takes the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Writer(writer) => writer.write_all(bytes),
            Self::Stdout => io::stdout().lock().write_all(bytes),
            Self::Stream(path, stream) => {
                let stream = match stream {
                    Some(stream) => stream,
                    None => stream.insert(OpenOptions::new().write(true).open(&*path)?),
                };
                stream.write_all(bytes)
            }
        }
    }

    /// Ends the output: nothing follows.
    pub(super) fn complete(mut self) -> io::Result<()> {
        // A stream without bytes is opened too, so that its reader sees the end.
        self.take(&[])?;
        match self {
            Self::Writer(mut writer) => writer.flush(),
            Self::Stdout => io::stdout().lock().flush(),
            Self::Stream(_, stream) => stream.map_or(Ok(()), |mut stream| stream.flush()),
        }
    }
}
