//! Inflates deflated members (RFC 1951).

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::bytes::{buffer, index};
use crate::{Error, Result, Rule};

/// The most bytes that one deflated byte inflates to: 4 matches of 258 bytes, with
/// codes of 1 bit each for length and distance.
const MAX_FACTOR: u64 = 1032;

fn refuse(detail: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::malformed(Rule::ZipMember, detail)
}

/// Fails unless `stored_len_bytes` of a deflated stream can inflate to `len_bytes`.
pub(super) fn check_len(stored_len_bytes: u64, len_bytes: u64) -> Result<()> {
    if len_bytes <= stored_len_bytes.saturating_mul(MAX_FACTOR) {
        return Ok(());
    }
    let detail = format!("{stored_len_bytes} deflated bytes do not inflate to {len_bytes}");
    Err(refuse(detail))
}

/// Inflates a whole stream to exactly `len_bytes`.
///
/// # Errors
/// [`Rule::ZipMember`] if the stream is damaged, has another length, or does not end
/// with the last byte.
pub(super) fn inflate(stored: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    check_len(stored.len() as u64, len_bytes)?;
    let mut out = buffer(len_bytes)?;
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, read, written) = decompress(&mut state, stored, &mut out, 0, flags);
    if status != TINFLStatus::Done || read != stored.len() || written != out.len() {
        let detail = format!("a deflated member does not inflate to its {len_bytes} bytes");
        return Err(refuse(detail));
    }
    Ok(out)
}

/// Inflates the beginning of a stream to at most `len_bytes`, given its first bytes.
/// The result is shorter if more of the stream is required.
pub(crate) fn inflate_start(stored: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    let reachable = (stored.len() as u64).saturating_mul(MAX_FACTOR);
    let mut out = buffer(len_bytes.min(reachable))?;
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | TINFL_FLAG_HAS_MORE_INPUT;
    let (status, _, written) = decompress(&mut state, stored, &mut out, 0, flags);
    if matches!(status, TINFLStatus::Failed | TINFLStatus::BadParam) {
        return Err(refuse("a deflated member is damaged"));
    }
    out.truncate(written.min(index(len_bytes)));
    Ok(out)
}
