//! An incremental parser for a JSON array of entries.

use serde_json::Value;

/// Maximum length of an entry, in bytes.
const MAX_ENTRY_BYTES: usize = 256 << 10;

/// Splits the text of one array into entries. Each entry is parsed when it is complete.
#[derive(Debug, Default)]
pub(super) struct JsonArray {
    entry: Vec<u8>,
    place: Place,
    depth: usize,
    has_entries: bool,
    is_text: bool,
    is_escaped: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Inside,
    After,
}

/// A description of an error in the text.
pub(super) type Fault = &'static str;

impl JsonArray {
    /// Takes the next bytes of the text, and adds the entries that end in them to
    /// `found`.
    pub(super) fn take(&mut self, bytes: &[u8], found: &mut Vec<Value>) -> Result<(), Fault> {
        for &byte in bytes {
            match (&self.place, byte) {
                (Place::Before, b'[') => self.place = Place::Inside,
                (Place::Before | Place::After, byte) if byte.is_ascii_whitespace() => {}
                (Place::Before, _) => return Err("it is not a list"),
                (Place::After, _) => return Err("something follows its end"),
                (Place::Inside, byte) => self.inside(byte, found)?,
            }
        }
        Ok(())
    }

    /// Checks that the array is complete.
    pub(super) fn end(&self) -> Result<(), Fault> {
        match self.place {
            Place::After => Ok(()),
            _ => Err("it ends in the middle"),
        }
    }

    fn inside(&mut self, byte: u8, found: &mut Vec<Value>) -> Result<(), Fault> {
        if self.is_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            return self.push(byte);
        }
        match byte {
            b',' if self.depth == 0 => return self.entry_ends(found),
            b']' if self.depth == 0 => {
                self.place = Place::After;
                let is_blank = self.entry.iter().all(u8::is_ascii_whitespace);
                return match is_blank && !self.has_entries {
                    true => Ok(()),
                    false => self.entry_ends(found),
                };
            }
            b'"' => self.is_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => {
                let depth = self.depth.checked_sub(1);
                self.depth = depth.ok_or("a bracket has no beginning")?;
            }
            _ => {}
        }
        self.push(byte)
    }

    fn push(&mut self, byte: u8) -> Result<(), Fault> {
        if self.entry.len() >= MAX_ENTRY_BYTES {
            return Err("an entry of it is too long");
        }
        self.entry.push(byte);
        Ok(())
    }

    fn entry_ends(&mut self, found: &mut Vec<Value>) -> Result<(), Fault> {
        let entry = serde_json::from_slice(&self.entry);
        found.push(entry.map_err(|_| "an entry of it is not JSON")?);
        self.entry.clear();
        self.has_entries = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entries of a text that arrives in chunks of `len` bytes.
    fn entries(text: &str, len: usize) -> Result<Vec<Value>, Fault> {
        let mut array = JsonArray::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(len) {
            array.take(piece, &mut found)?;
        }
        array.end()?;
        Ok(found)
    }

    #[test]
    fn entries_are_those_of_the_whole_text() {
        for text in [
            "[]",
            " [ ] ",
            "[1]",
            r#"[{"a":"]},[\"\\"},{"b":[1,{"c":[]}]}]"#,
            r#" [ "\\" , "\"" , null , [] ] "#,
        ] {
            let whole: Vec<Value> = serde_json::from_str(text).unwrap();
            for len in 1..=text.len() {
                assert_eq!(entries(text, len).as_ref(), Ok(&whole), "{text}");
            }
        }
        for text in [
            "", "[", "{}", "[1", "[1,]", "[,1]", "[]]", "[1}]", "[}]", "[] 1", "[tru]",
        ] {
            for len in 1..=text.len().max(1) {
                assert!(entries(text, len).is_err(), "{text}");
            }
        }
        let long = format!("[\"{}\"]", "x".repeat(MAX_ENTRY_BYTES));
        assert!(entries(&long, 4096).is_err());
    }
}
