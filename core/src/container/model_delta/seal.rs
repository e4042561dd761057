//! The seal: what z4ai's format leaves unchecked
//! (docs/formats/zstn-delta.md 2). z4ai ignores bytes after the last record.

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

const MAGIC: [u8; 8] = *b"ZSTNSEAL";
const TAG_BASE: [u8; 4] = *b"BASE";
const TAG_TARGET: [u8; 4] = *b"TRGT";

/// Digests of a delta made by us; BLAKE3 each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Of the base's names and spans.
    pub base_table: [u8; 32],
    /// Of the whole restored file.
    pub target: [u8; 32],
}

impl Seal {
    /// Reads the seal from the bytes after the last record. Other bytes than
    /// a seal are passed over, as z4ai does; a damaged seal is refused.
    pub fn parse(behind: &[u8]) -> Result<Option<Self>> {
        let bad = |detail| Error::malformed(Rule::DeltaSeal, detail);
        let Some(payload_and_len) = behind.strip_suffix(&MAGIC) else {
            return Ok(None);
        };
        let Some((payload, len)) = payload_and_len.split_last_chunk::<8>() else {
            return Err(bad("the seal is cut off".into()));
        };
        let len = u64::from_le_bytes(*len);
        if len > payload.len() as u64 {
            return Err(bad(format!(
                "a seal of {len} bytes, {} are there",
                payload.len()
            )));
        }
        let start = payload.len() - crate::bytes::index(len);
        let mut cursor = Cursor::new(&payload[start..]);
        let (mut base_table, mut target) = (None, None);
        while cursor.remaining() > 0 {
            let tag = cursor.take(4, "seal tag")?;
            let len = cursor.u64("seal field length")?;
            let field = cursor.take(len, "seal field")?;
            let digest = || {
                <[u8; 32]>::try_from(field)
                    .map_err(|_| bad(format!("a digest of {len} bytes in the seal")))
            };
            // Fields of later versions are passed over.
            if tag == TAG_BASE {
                base_table = Some(digest()?);
            } else if tag == TAG_TARGET {
                target = Some(digest()?);
            }
        }
        match (base_table, target) {
            (Some(base_table), Some(target)) => Ok(Some(Self { base_table, target })),
            _ => Err(bad("the seal lacks a digest".into())),
        }
    }

    /// The bytes to write after the last record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, digest) in [(TAG_BASE, &self.base_table), (TAG_TARGET, &self.target)] {
            out.extend_from_slice(&tag);
            out.extend_from_slice(&32u64.to_le_bytes());
            out.extend_from_slice(digest);
        }
        let len = out.len() as u64;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }
}
