//! Messages on standard error.

use std::fmt;
use std::io::{self, Write};

use zstn::display::Escaped;

use super::escaped::Json;
use super::{progress, stop};

/// Writes a line to standard error like `eprintln!`, with two differences: it does not
/// panic if standard error is closed, and it escapes characters that a terminal may
/// interpret, including newlines.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::say::line(format_args!($($argument)*))
    };
}
pub(super) use say;

/// Writes one line; called by [`say!`].
pub fn line(text: fmt::Arguments<'_>) {
    write(format!("{}\n", Escaped(text)).as_bytes());
}

/// Writes one line of JSON.
pub fn json(value: &serde_json::Value) {
    let mut line = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Json);
    if serde::Serialize::serialize(value, &mut serializer).is_ok() {
        line.push(b'\n');
        write(&line);
    }
}

fn write(line: &[u8]) {
    stop::wait_if_stopped();
    // An error cannot be reported if standard error is closed.
    progress::above_bar(|| drop(io::stderr().lock().write_all(line)));
}
