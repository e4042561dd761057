//! Everything that is printed: results on standard output, messages on standard error.
//! Characters that a terminal may interpret are escaped.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use serde::Serialize;
use zstn::display::{Escaped, is_unsafe};
use zstn::{Error, Result};

use super::signals;

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
        signals::wait_if_stopped();
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
            // The error comes from the pipe itself.
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

/// Refuses to write binary data to standard output if it is a terminal, unless
/// `--force` is given. Call this before the work begins.
pub fn refuse_binary(force: bool) -> Result<()> {
    if force || !io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Error::Usage(
        "standard output is a terminal, and this would write binary data to it; redirect it, or \
         name a file with -o"
            .into(),
    ))
}

/// Writes a line to standard error like `eprintln!`, with two differences: it does not
/// panic if standard error is closed, and it escapes characters that a terminal may
/// interpret, including newlines.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::terminal::say_line(format_args!($($argument)*))
    };
}
pub(super) use say;

/// Writes one line; called by [`say!`].
pub fn say_line(text: fmt::Arguments<'_>) {
    say_bytes(format!("{}\n", Escaped(text)).as_bytes());
}

/// Writes one line of JSON to standard error.
pub fn say_json(value: &serde_json::Value) {
    let mut line = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Json);
    if Serialize::serialize(value, &mut serializer).is_ok() {
        line.push(b'\n');
        say_bytes(&line);
    }
}

/// The progress bar that is shown, if any.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the progress bar, which is hidden while a message is written.
pub fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

fn say_bytes(line: &[u8]) {
    signals::wait_if_stopped();
    // An error cannot be reported if standard error is closed.
    let write = || drop(io::stderr().lock().write_all(line));
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Compact JSON that escapes every character for which [`is_unsafe`] is true. Parsers
/// read the same text.
struct Json;

impl serde_json::ser::Formatter for Json {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            let (before, after) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut after = after.chars();
            if let Some(character) = after.next() {
                // All unsafe characters are below U+10000.
                write!(writer, "\\u{:04x}", u32::from(character))?;
            }
            rest = after.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_means_the_same() {
        let text = "\x1b[0m \u{9b} \u{202e} \u{7f} \" \\ größe 🙂";
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Json);
        Serialize::serialize(text, &mut serializer).expect("JSON");
        let shown = String::from_utf8(bytes).expect("text");
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
    }
}
