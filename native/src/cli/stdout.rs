//! Results on standard output. A closed pipe is an error like others.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;
use zstn::display::Escaped;
use zstn::{Error, Result};

use super::escaped::Json;
use super::stop;

/// Many lines, buffered.
pub struct Stdout(BufWriter<StdoutLock<'static>>);

impl Stdout {
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Appends a line. Characters that a terminal may act on are escaped,
    /// newlines included.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.0, "{}", Escaped(text)).map_err(failed)
    }

    /// Appends a line of JSON, piece by piece as it is serialized.
    pub fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let mut serializer = serde_json::Serializer::with_formatter(&mut self.0, Json);
        value
            .serialize(&mut serializer)
            .map_err(io::Error::from)
            .map_err(failed)?;
        writeln!(self.0).map_err(failed)
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(failed)
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<()> {
        stop::wait_if_stopped();
        self.0.flush().map_err(failed)
    }
}

/// Standard output for bytes; its errors name it.
pub struct RawStdout;

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("standard output: {error}")),
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("write standard output", error)
}

/// A value that [`print`] takes.
pub trait Printable {
    /// Appends it as one line.
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

/// Writes one line to standard output, of text or of JSON.
pub fn print(line: impl Printable) -> Result<()> {
    let mut out = Stdout::new();
    line.print(&mut out)?;
    out.finish()
}
