//! Keys of results.

use sha2::{Digest, Sha256};
use zstn_core::frame::select::EncodeOptions;

pub(crate) use crate::proof::hex;

/// The version of the packer's output, which is the package version. It is part of
/// every key, so that results of another version are not reused.
pub const FORMAT: &str = concat!("zstn-", env!("CARGO_PKG_VERSION"));

/// Returns the key for a file with this SHA-256 (in lower-case hex) that is packed into
/// a container. A key has 64 hex digits.
#[must_use]
pub fn key(sha256: &str, options: impl Into<EncodeOptions>) -> String {
    key_against(sha256, options, &[])
}

/// Returns the key for a file that is stored as a delta. `bases` are the keys of its
/// base, of the base of that one if it is a delta itself, and so on.
#[must_use]
pub fn key_against(sha256: &str, options: impl Into<EncodeOptions>, bases: &[String]) -> String {
    let options = options.into();
    let effort = format!("{:?}", options.effort).to_lowercase();
    let extended = if options.is_extended() {
        " extended"
    } else {
        ""
    };
    let mut text = format!("{sha256}\n{FORMAT}\n{effort}{extended}\n");
    for base in bases {
        text.push_str(&format!("base {base}\n"));
    }
    hex_digest(text.as_bytes())
}

/// Returns the SHA-256 of bytes in lower-case hex.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns whether a text is a SHA-256 or a key in lower-case hex.
pub(crate) fn is_digest(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 64 && text.bytes().all(is_hex)
}
