//! Writing results to standard output. If the reader closes the pipe early, a listing
//! ends without an error, but the bytes of a result end with one.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;
use zstn::display::Escaped;
use zstn::{Error, Result};

use super::escaped::Json;
use super::stop;

/// Buffered standard output for text.
pub struct Stdout(BufWriter<StdoutLock<'static>>);

impl Stdout {
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Appends a line. Characters that a terminal may interpret are escaped, including
    /// newlines.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.0, "{}", Escaped(text)).map_err(failed)
    }

    /// Appends a line of JSON, which is written while it is serialized.
    pub fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let mut serializer = serde_json::Serializer::with_formatter(&mut self.0, Json);
        value
            .serialize(&mut serializer)
            .map_err(io::Error::from)
            .map_err(failed)?;
        writeln!(self.0).map_err(failed)
    }

    /// Appends bytes unchanged. If the reader closes the pipe before their end, the
    /// result is incomplete, which is an error.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.0.write_all(bytes).and_then(|()| self.0.flush());
        written.map_err(|error| Error::io("write standard output", error))
    }

    /// Writes the buffered text.
    pub fn finish(mut self) -> Result<()> {
        stop::wait_if_stopped();
        self.0.flush().map_err(failed)
    }
}

/// Standard output for binary data. Its errors name standard output.
pub struct RawStdout;

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(named)
    }
}

/// The error that the bytes of a result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
struct Unread(String);

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, Unread(error.to_string())),
    }
}

/// Returns the error for text that could not be written.
fn failed(error: io::Error) -> Error {
    let error = match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(error.kind(), SeenEnough),
        _ => error,
    };
    Error::io("write standard output", error)
}

/// The reader of a listing, such as `head`, has closed the pipe. This is not a failure.
#[derive(Debug, thiserror::Error)]
#[error("its reader has closed it")]
struct SeenEnough;

/// The meaning of a closed pipe for the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The reader of a listing has stopped early, which is not an error.
    Satisfied,
    /// The reader of a result's bytes closed the pipe before their end.
    CutOff,
}

impl Left {
    /// Returns the meaning of a closed pipe, or `None` for other errors.
    pub fn of(error: &Error) -> Option<Self> {
        let Error::Io { source, .. } = error else {
            return None;
        };
        if source.kind() != io::ErrorKind::BrokenPipe {
            return None;
        }
        match source.get_ref() {
            // The error of the pipe itself.
            None => Some(Self::CutOff),
            Some(inner) if inner.is::<SeenEnough>() => Some(Self::Satisfied),
            Some(inner) if inner.is::<Unread>() => Some(Self::CutOff),
            // A closed network connection is an ordinary error.
            Some(_) => None,
        }
    }
}

/// A value that [`print`] accepts.
pub trait Printable {
    /// Appends the value as one line.
    fn print(&self, out: &mut Stdout) -> Result<()>;
}

impl Printable for &str {
    fn print(&self, out: &mut Stdout) -> Result<()> {
        out.line(self)
    }
}

impl Printable for String {
    fn print(&self, out: &mut Stdout) -> Result<()> {
        out.line(self)
    }
}

impl Printable for serde_json::Value {
    fn print(&self, out: &mut Stdout) -> Result<()> {
        out.json(self)
    }
}

/// Writes one line of text or JSON to standard output.
pub fn print(line: impl Printable) -> Result<()> {
    let mut out = Stdout::new();
    line.print(&mut out)?;
    out.finish()
}
