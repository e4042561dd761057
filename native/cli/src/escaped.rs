//! JSON that is safe to print on a terminal.

use std::io;

use zstn::display::is_unsafe;

/// Compact JSON that escapes every character for which [`is_unsafe`] is true. Parsers
/// read the same text.
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
        serde::Serialize::serialize(text, &mut serializer).expect("JSON");
        let shown = String::from_utf8(bytes).expect("text");
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
    }
}
