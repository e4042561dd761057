//! Text from files and servers, shown so that a terminal only displays it.
//!
//! The name of a tensor may hold anything: sequences that set the title of a
//! window or hide what is next to them, a newline that forges another line of
//! a table, marks that reverse the direction of writing.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};
use std::io;

/// Displays its content on one line, with every character that
/// [`is_unsafe`] as an escape sequence of Rust, like `\n` or `\u{1b}`.
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Filter(f), "{}", self.0)
    }
}

/// The same for a text at hand; borrowed where nothing has to be escaped.
pub fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(is_unsafe) {
        true => Escaped(text).to_string().into(),
        false => text.into(),
    }
}

/// Whether a terminal may act on the character instead of displaying it:
/// control characters (C0, DEL, C1), line and paragraph separators, and those
/// that change the direction of the text around them.
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

/// Compact JSON in which these characters are escaped as well, which means
/// the same to whoever parses it.
pub struct Json;

impl serde_json::ser::Formatter for Json {
    fn write_string_fragment<W: io::Write + ?Sized>(
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
                // All of them are below U+10000.
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
            // What has been escaped stays as it is.
            assert_eq!(escaped(shown), shown);
        }
    }

    #[test]
    fn json_means_the_same() {
        let text = "\x1b[0m \u{9b} \u{202e} \u{7f} \" \\ größe 🙂";
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Json);
        serde::Serialize::serialize(text, &mut serializer).expect("JSON");
        let shown = String::from_utf8(bytes).expect("text");
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
    }
}
