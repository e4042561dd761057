//! Lines on standard error, for people.

use std::fmt;
use std::io::{self, Write};

use zstn::display::Escaped;

use super::escaped::Json;
use super::{progress, stop};

/// Writes a line to standard error as `eprintln!` does, with two differences:
/// a closed standard error does not cause a panic, and characters that a
/// terminal may act on are escaped, newlines included.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::say::line(format_args!($($argument)*))
    };
}
pub(super) use say;

/// Writes one line; what [`say!`] calls.
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
