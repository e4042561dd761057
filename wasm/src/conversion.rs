//! Conversion of errors, sizes, positions and file ranges between Rust and
//! JavaScript.

use alloc::format;
use alloc::string::ToString;
#[cfg(feature = "formats")]
use core::ops::Range;

use wasm_bindgen::JsValue;
use zstn_core::Error;
#[cfg(any(feature = "reader", feature = "formats"))]
use zstn_core::container::zstn::rows::PlaneSize;

/// Returns the text that TypeScript converts to one of its error classes: one line each
/// for the error code, the rule, the offset and the length of the tensor's name in UTF-16
/// units, all except the code possibly empty; then the name and the message.
pub fn to_js_error(error: &Error) -> JsValue {
    let kind = error.code();
    let rule = error.rule().map_or("", zstn_core::Rule::code);
    let offset = error.offset().map(|offset| offset.to_string());
    let offset = offset.unwrap_or_default();
    let name = error.tensor_name();
    let units = name.map(|name| name.encode_utf16().count().to_string());
    let (units, name) = (units.unwrap_or_default(), name.unwrap_or_default());
    format!("{kind}\n{rule}\n{offset}\n{units}\n{name}{error}").into()
}

/// Returns a JavaScript number as an integer. JavaScript numbers are exact integers up to
/// 2^53; anything else is an error.
#[cfg(any(feature = "reader", feature = "formats", feature = "coder"))]
pub fn to_u64(number: f64) -> Result<u64, Error> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && (0.0..=MAX).contains(&number) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return Ok(number as u64);
    }
    // The message does not contain the number, because formatting it would add the code
    // for decimal fractions to the module.
    Err(Error::invalid_input(
        "a size or a position is not a whole number from 0 to 2^53",
    ))
}

/// Returns ranges of numbered files as `[file, offset, length, …]`.
#[cfg(feature = "formats")]
pub fn triples(ranges: impl IntoIterator<Item = (usize, Range<u64>)>) -> Vec<f64> {
    let ranges = ranges.into_iter();
    ranges
        .flat_map(|(file, range)| {
            let len = range.end - range.start;
            [file as f64, range.start as f64, len as f64]
        })
        .collect()
}

/// Returns one line for each plane, with tabs between its name, its method and its
/// decoded and stored lengths in bytes.
#[cfg(any(feature = "reader", feature = "formats"))]
pub fn plane_lines(planes: &[PlaneSize]) -> String {
    let line = |plane: &PlaneSize| {
        let PlaneSize { name, method, .. } = plane;
        let (len, stored) = (plane.len_bytes, plane.stored_len_bytes);
        format!("{name}\t{}\t{len}\t{stored}\n", method.name())
    };
    planes.iter().map(line).collect()
}
