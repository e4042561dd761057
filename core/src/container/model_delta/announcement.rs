//! The announcement of the trailer (docs/formats/zstn-delta.md 5): a bit,
//! ignored by z4ai and by older readers, in the flags byte that most payloads
//! have. A delta that has lost its whole trailer is then not mistaken for one
//! that never had any.

use super::record::Kind;

/// The bit of the announcement. Bit 0 of a frame's flags marks the NumPy fields
/// as valid.
const TRAILER_FOLLOWS: u8 = 0x80;

/// Returns the offset of the flags byte that z4ai ignores, or `None` for a
/// payload without one.
fn flags_offset(kind: Kind, payload: &[u8]) -> Option<usize> {
    match (kind, payload.get(..4)?) {
        (Kind::Delta, b"Z4DL") | (Kind::Full, b"Z4AI") => Some(5),
        (Kind::Full, b"ZSP1" | b"ZPL1") => Some(6),
        _ => None,
    }
}

/// Sets the announcement of the trailer in the payload of a record, or in the
/// first bytes of it.
pub fn announce(kind: Kind, payload: &mut [u8]) {
    let offset = flags_offset(kind, payload);
    if let Some(flags) = offset.and_then(|offset| payload.get_mut(offset)) {
        *flags |= TRAILER_FOLLOWS;
    }
}

/// Returns whether the payload of a record announces a trailer.
#[must_use]
pub fn is_announced(kind: Kind, payload: &[u8]) -> bool {
    let offset = flags_offset(kind, payload);
    let flags = offset.and_then(|offset| payload.get(offset));
    flags.is_some_and(|flags| flags & TRAILER_FOLLOWS != 0)
}
