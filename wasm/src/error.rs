//! Errors as JavaScript sees them.

use serde::Serialize;
use wasm_bindgen::JsValue;

#[derive(Serialize)]
struct Refusal<'a> {
    zstn: bool,
    kind: &'static str,
    rule: Option<&'static str>,
    offset: Option<f64>,
    tensor: Option<&'a str>,
    message: String,
}

/// Returns the plain object that TypeScript turns into one of its error classes.
pub fn to_js_error(error: &zstn_core::Error) -> JsValue {
    let refusal = Refusal {
        zstn: true,
        kind: error.kind().code(),
        rule: error.rule().map(zstn_core::Rule::code),
        // Offsets are for people; beyond 2^53 the last digits do not matter.
        offset: error.offset().map(|offset| offset as f64),
        tensor: error.tensor_name(),
        message: error.to_string(),
    };
    serde_wasm_bindgen::to_value(&refusal).unwrap_or_else(|_| refusal.message.into())
}
