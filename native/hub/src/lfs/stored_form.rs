//! The formats of stored objects (docs/git-lfs.md, "Stored objects").

use zstn_core::container::zstn as packed;

use zstn::{Error, Result};

/// Precedes the bytes of an object that would otherwise be mistaken for a packed or
/// enveloped one.
pub(super) const ENVELOPE: [u8; 8] = *b"ZLFS\x01\0\0\0";

/// The magic of envelopes of all versions.
const ENVELOPE_MAGIC: &[u8] = b"ZLFS";

/// Number of leading bytes that identify the format.
pub(super) const HEAD_BYTES: usize = ENVELOPE.len();

/// The format of a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredForm {
    /// A ZSTN file, which unpacks to the object.
    Packed,
    /// The unchanged bytes of the object.
    Plain,
    /// [`ENVELOPE`], followed by the bytes of the object.
    Enveloped,
}

impl StoredForm {
    /// Returns the format of a stored object from its first [`HEAD_BYTES`] bytes, or
    /// from all bytes if it is shorter.
    ///
    /// # Errors
    /// If the envelope is of a later version.
    pub(super) fn of(head: &[u8]) -> Result<Self> {
        if head.starts_with(&packed::MAGIC) {
            return Ok(Self::Packed);
        }
        if head.starts_with(&ENVELOPE) {
            return Ok(Self::Enveloped);
        }
        if head.starts_with(ENVELOPE_MAGIC) {
            return Err(Error::Usage(
                "it is in a format that this version of zstn does not know; use a newer one".into(),
            ));
        }
        Ok(Self::Plain)
    }

    /// Returns whether an unpacked object that begins with these bytes has to be stored
    /// in an envelope.
    pub(super) fn needs_envelope(head: &[u8]) -> bool {
        head.starts_with(&packed::MAGIC) || head.starts_with(ENVELOPE_MAGIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_are_mistaken_for_a_form() {
        for bytes in [
            &b"ZSTN"[..],
            b"ZSTN\x01rest",
            b"ZLFS",
            b"ZLFS\x01\0\0\0",
            b"ZLFSx",
        ] {
            assert!(StoredForm::needs_envelope(bytes));
            let stored = [&ENVELOPE, bytes].concat();
            assert_eq!(StoredForm::of(&stored).unwrap(), StoredForm::Enveloped);
        }
        for bytes in [&b""[..], b"ZST", b"ZLF", b"{}", b"version 1"] {
            assert!(!StoredForm::needs_envelope(bytes));
            assert_eq!(StoredForm::of(bytes).unwrap(), StoredForm::Plain);
        }
        assert!(StoredForm::of(b"ZLFS\x02\0\0\0").is_err());
    }
}
