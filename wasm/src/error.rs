//! Conversion of errors to JavaScript.

use alloc::format;
use alloc::string::ToString;

use wasm_bindgen::JsValue;

/// Returns the text that TypeScript converts to one of its error classes: one line each
/// for the error code, the rule, the offset and the length of the tensor's name in UTF-16
/// units, all except the code possibly empty; then the name and the message.
pub fn to_js_error(error: &zstn_core::Error) -> JsValue {
    let kind = error.code();
    let rule = error.rule().map_or("", zstn_core::Rule::code);
    let offset = error.offset().map(|offset| offset.to_string());
    let offset = offset.unwrap_or_default();
    let name = error.tensor_name();
    let units = name.map(|name| name.encode_utf16().count().to_string());
    let (units, name) = (units.unwrap_or_default(), name.unwrap_or_default());
    format!("{kind}\n{rule}\n{offset}\n{units}\n{name}{error}").into()
}
