//! Escaping of untrusted text and formatting of sizes, shared by `serve` and the
//! command line.
//!
//! The name of a tensor may contain any characters: sequences that set a window's title
//! or hide the text around them, a newline that forges another line of a table, or
//! marks that reverse the writing direction.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

pub use zstn_net::shown::{address, text as without_secrets};

/// Displays its content on one line. Every character for which [`is_unsafe`] returns
/// true is displayed as a Rust escape sequence, like `\n` or `\u{1b}`.
#[derive(Debug)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Filter(f), "{}", self.0)
    }
}

/// Returns `text` with the escapes of [`Escaped`].
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(is_unsafe) {
        true => Escaped(text).to_string().into(),
        false => text.into(),
    }
}

/// Displays its content with the secrets in its addresses hidden ([`without_secrets`]).
#[derive(Debug)]
pub struct Shown<T>(pub T);

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(&self.0.to_string()))
    }
}

/// Returns whether a terminal or a web page may act on the character instead of
/// displaying it: control characters (C0, DEL, C1), line and paragraph separators, and
/// marks that change the writing direction of the text around them.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

struct Filter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Filter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_unsafe) {
            let (before, after) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut after = after.chars();
            if let Some(character) = after.next() {
                match character {
                    '\n' | '\r' | '\t' => write!(self.0, "{}", character.escape_default())?,
                    other => write!(self.0, "{}", other.escape_unicode())?,
                }
            }
            rest = after.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Returns a length like `90.9 MB`, with three digits from 1 kB upwards. 1 MB is 10^6
/// bytes.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acts_on_a_terminal_is_escaped() {
        for (text, shown) in [
            ("wte.weight", "wte.weight"),
            ("größe/重み 🙂", "größe/重み 🙂"),
            (r"C:\models\u{1b}", r"C:\models\u{1b}"),
            ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("two\r\nlines\tand a tab", r"two\r\nlines\tand a tab"),
            ("\0\x7f\u{9b}31m", r"\u{0}\u{7f}\u{9b}31m"),
            ("\u{202e}nib.lave", r"\u{202e}nib.lave"),
            (
                "\u{2028}\u{2069}\u{200f}\u{61c}",
                r"\u{2028}\u{2069}\u{200f}\u{61c}",
            ),
        ] {
            assert_eq!(escaped(text), shown);
            assert_eq!(Escaped(text).to_string(), shown);
            // Escaping twice changes nothing.
            assert_eq!(escaped(shown), shown);
        }
    }

    #[test]
    fn sizes_keep_three_digits() {
        let sizes = [
            0,
            999,
            1000,
            9994,
            99_949,
            999_499,
            999_500,
            90_868_344,
            u64::MAX,
        ];
        let expected = [
            "0 B", "999 B", "1.00 kB", "9.99 kB", "99.9 kB", "999 kB", "1.00 MB", "90.9 MB",
            "18.4 EB",
        ];
        assert_eq!(sizes.map(size), expected);
    }
}
