//! The name of a piece of work.

use sha2::{Digest, Sha256};
use zstn_core::frame::select::EncodeOptions;

pub(crate) use crate::proof::hex;

/// The version of what the packer writes. It changes with the packed bytes of the
/// same input, so that results of an older packer are not taken for those of this
/// one.
pub const FORMAT: &str = concat!("zstn-", env!("CARGO_PKG_VERSION"));

/// Returns the key of the work on a file with this SHA-256 (in lower-case hex): 64
/// hex digits.
#[must_use]
pub fn key(sha256: &str, options: impl Into<EncodeOptions>) -> String {
    key_against(sha256, options, &[])
}

/// Returns the key of the work on a file that is stored as a difference: from the
/// packed file with the first of the keys `bases`, which is a difference from that
/// with the second, and so on.
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
