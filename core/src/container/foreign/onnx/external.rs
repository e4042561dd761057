//! Values in other files (docs/formats/onnx.md 4).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Error, Result, Rule};

/// The place of values in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalData {
    /// The path of the file, relative to the folder of the model: names that are
    /// joined by `/`.
    pub location: String,
    /// The offset of the first byte.
    pub offset_bytes: u64,
    /// The stated length in bytes; `None` for the rest of the file.
    pub len_bytes: Option<u64>,
}

impl ExternalData {
    /// Returns the range of values of `raw_bytes` in a file of
    /// `file_len_bytes`.
    ///
    /// # Errors
    /// [`Rule::OnnxExtent`] if the values leave the file, and
    /// [`Rule::OnnxLength`] if the rest of the file has another length.
    pub fn range(&self, raw_bytes: u64, file_len_bytes: u64) -> Result<Range<u64>> {
        let start = self.offset_bytes;
        let left = file_len_bytes.checked_sub(start);
        let Some(left) = left.filter(|left| *left >= raw_bytes) else {
            let detail = format!(
                "its values are {raw_bytes} bytes from byte {start} of `{}`, which has \
                 {file_len_bytes} bytes",
                self.location
            );
            return Err(Error::malformed(Rule::OnnxExtent, detail));
        };
        if self.len_bytes.is_none() && left != raw_bytes {
            let detail = format!(
                "its values are the rest of `{}`, which has {left} bytes instead of {raw_bytes}",
                self.location
            );
            return Err(Error::malformed(Rule::OnnxLength, detail));
        }
        Ok(start..start + raw_bytes)
    }
}

/// The entries of `external_data`. Of repeated keys, the last one counts.
#[derive(Debug, Clone, Default)]
pub(super) struct ExternalKeys {
    location: Option<Vec<u8>>,
    offset: Option<Vec<u8>>,
    length: Option<Vec<u8>>,
}

impl ExternalKeys {
    pub fn add(&mut self, key: &[u8], value: Vec<u8>) {
        match key {
            b"location" => self.location = Some(value),
            b"offset" => self.offset = Some(value),
            b"length" => self.length = Some(value),
            _ => {}
        }
    }

    /// Returns the place of values of `raw_bytes`.
    ///
    /// # Errors
    /// [`Rule::OnnxLocation`] for a file outside of the model's folder, and
    /// [`Rule::OnnxExtent`] for an offset or a length that is not a number.
    pub fn place(&self, raw_bytes: u64) -> Result<ExternalData> {
        let place = ExternalData {
            location: location(self.location.as_deref())?,
            offset_bytes: number("offset", self.offset.as_deref())?.unwrap_or(0),
            len_bytes: number("length", self.length.as_deref())?,
        };
        match place.len_bytes {
            Some(len) if len != raw_bytes => {
                let detail =
                    format!("its values have {len} bytes in another file instead of {raw_bytes}");
                Err(Error::malformed(Rule::OnnxLength, detail))
            }
            _ => Ok(place),
        }
    }
}

/// Checks that a path names a file in the model's folder or below it.
fn location(path: Option<&[u8]>) -> Result<String> {
    let refuse = |shown: &str| {
        let detail = format!(
            "its values are in the file `{}`, which is not the plain path of a file beside the \
             model",
            shown.escape_default()
        );
        Error::malformed(Rule::OnnxLocation, detail)
    };
    let Some(path) = path else {
        let detail = "its values are in another file, whose name is missing";
        return Err(Error::malformed(Rule::OnnxLocation, detail));
    };
    let text = core::str::from_utf8(path).map_err(|_| refuse("(not UTF-8)"))?;
    let is_plain = |name: &str| {
        let is_wrong = |c: char| c.is_control() || matches!(c, '\\' | ':');
        !matches!(name, "" | "." | "..") && !name.contains(is_wrong)
    };
    // Writers may begin the path with `./`.
    let rest = text.strip_prefix("./").unwrap_or(text);
    match rest.split('/').all(is_plain) {
        true => Ok(rest.to_string()),
        false => Err(refuse(text)),
    }
}

/// Parses a decimal number.
fn number(key: &str, text: Option<&[u8]>) -> Result<Option<u64>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let digits = core::str::from_utf8(text).ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => {
            let shown = String::from_utf8_lossy(text);
            let detail = format!(
                "the {key} of its values in another file is `{}`, not a decimal number",
                shown.escape_default()
            );
            Err(Error::malformed(Rule::OnnxExtent, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_folder_of_the_model() {
        for path in ["weights.bin", "a/b.data", "./w", "a..b", "..a/..b", "µ"] {
            assert!(location(Some(path.as_bytes())).is_ok(), "{path}");
        }
        for path in [
            "",
            "/",
            "/w",
            "..",
            "../w",
            "a/../w",
            "a//w",
            "a/",
            "./",
            "././w",
            "a/./w",
            "C:w",
            "C:\\w",
            "a\\w",
            "file:w",
            "http://h/w",
            "w\0",
            "w\n",
        ] {
            let error = location(Some(path.as_bytes())).unwrap_err();
            assert_eq!(error.rule(), Some(Rule::OnnxLocation), "{path:?}");
        }
        assert!(location(None).is_err() && location(Some(b"\xff")).is_err());
    }

    #[test]
    fn numbers_are_decimal_digits() {
        for (text, expected) in [("0", 0), ("00012", 12), ("18446744073709551615", u64::MAX)] {
            assert_eq!(number("offset", Some(text.as_bytes())), Ok(Some(expected)));
        }
        for text in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "0x10",
            "1e3",
            "18446744073709551616",
        ] {
            assert!(number("offset", Some(text.as_bytes())).is_err(), "{text:?}");
        }
    }
}
