//! The form in which an object is stored (docs/git-lfs.md, "Stored objects").

use zstn_core::container::zstn as packed;

use zstn::{Error, Result};

/// The first bytes of an object that begins like one of these forms by itself;
/// its own bytes follow.
pub(super) const ENVELOPE: [u8; 8] = *b"ZLFS\x01\0\0\0";

/// The beginning of the envelopes of all versions.
const ENVELOPE_MAGIC: &[u8] = b"ZLFS";

/// The number of first bytes by which the forms are recognised.
pub(super) const HEAD_BYTES: usize = ENVELOPE.len();

/// The form in which an object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredForm {
    /// A ZSTN file, which unpacks to the object.
    Packed,
    /// The bytes of the object.
    Plain,
    /// The bytes of the object after [`ENVELOPE`].
    Enveloped,
}

impl StoredForm {
    /// Returns the form of a stored object by its first [`HEAD_BYTES`] bytes, or
    /// all if it is shorter.
    ///
    /// # Errors
    /// An envelope that only a later version knows.
    pub(super) fn of(head: &[u8]) -> Result<Self> {
        if head.starts_with(&packed::MAGIC) {
            return Ok(Self::Packed);
        }
        if head.starts_with(&ENVELOPE) {
            return Ok(Self::Enveloped);
        }
        if head.starts_with(ENVELOPE_MAGIC) {
            return Err(Error::Usage(
                "it is in a form that this version of zstn does not know; use a newer one".into(),
            ));
        }
        Ok(Self::Plain)
    }

    /// Returns whether bytes that begin so have to be put into an envelope to be
    /// stored as they are.
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
