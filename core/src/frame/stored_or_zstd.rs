//! A stream that is stored uncompressed or as one zstd frame. Turbo and chunked
//! frames have only these two methods; `ZARA` frames also have others
//! (docs/formats/z4ai-frames.md 9.2, 11.3, 12).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

pub(super) const STORE: u8 = 0;
pub(super) const ZSTD: u8 = 1;

/// A stream record of a turbo or `ZARA` frame. Its method has not been checked
/// yet.
pub(super) struct Record<'a> {
    /// Offset of the record in the frame.
    pub at: u64,
    pub method: u8,
    pub len_bytes: u64,
    /// Offset of the payload in the frame.
    pub payload_at: u64,
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<Self> {
        let at = cursor.position() as u64;
        let method = cursor.u8("stream method")?;
        let len_bytes = cursor.u64("stream length")?;
        let payload_len = cursor.u64("stream payload length")?;
        Ok(Self {
            at,
            method,
            len_bytes,
            payload_at: cursor.position() as u64,
            payload: cursor.take(payload_len, "stream payload")?,
        })
    }

    /// Returns the error for a method that the frame family does not define.
    pub(crate) fn unknown_method(&self) -> Error {
        let detail = format!("stream method {} does not exist here", self.method);
        Error::malformed(Rule::FrameMethod, detail).at(self.at)
    }
}

/// A stream whose payload has been checked to be long enough for its decoded
/// length.
#[derive(Debug, Clone)]
pub(super) struct Stream<'a> {
    len_bytes: u64,
    payload: &'a [u8],
    stored: bool,
}

impl<'a> Stream<'a> {
    pub fn parse(record: &Record<'a>) -> Result<Self> {
        let &Record {
            at,
            len_bytes,
            payload,
            ..
        } = record;
        match record.method {
            STORE if payload.len() as u64 != len_bytes => Err(Error::malformed(
                Rule::StoreLength,
                format!(
                    "a stored stream of {len_bytes} bytes has a payload of {}",
                    payload.len()
                ),
            )
            .at(at)),
            STORE => Ok(()),
            ZSTD => zstd::check(payload, len_bytes).map_err(|e| e.within(record.payload_at)),
            _ => Err(record.unknown_method()),
        }?;
        Ok(Self {
            len_bytes,
            payload,
            stored: record.method == STORE,
        })
    }

    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the payload, and whether it is the stream itself; it is a zstd frame
    /// otherwise.
    #[cfg(feature = "plan")]
    pub fn payload(&self) -> (&'a [u8], bool) {
        (self.payload, self.stored)
    }

    /// Returns the decoded stream, which is borrowed if it is stored
    /// uncompressed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        if self.stored {
            return Ok(Cow::Borrowed(self.payload));
        }
        let mut out = bytes::buffer(self.len_bytes)?;
        zstd::decode(engine, self.payload, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Decodes into `out`, which must be as long as the decoded stream.
    pub fn decode_into<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if self.stored {
            out.copy_from_slice(self.payload);
            return Ok(());
        }
        zstd::decode(engine, self.payload, out)
    }
}

/// Encodes `raw` with each of `codings` and returns the smallest zstd frame.
/// Without codings, it uses a search of level 1.
pub(super) fn zstd_smallest<E: PackEngine>(
    engine: &E,
    raw: &[u8],
    codings: &[ZstdCoding],
) -> Vec<u8> {
    let code = |coding| {
        let mut out = Vec::new();
        engine.zstd_encode(raw, coding, &mut out);
        out
    };
    let mut best = code(*codings.first().unwrap_or(&ZstdCoding::Search(1)));
    for &coding in codings.iter().skip(1) {
        let next = code(coding);
        if next.len() < best.len() {
            best = next;
        }
    }
    best
}

/// Returns the method and payload for `raw`: stored unless a zstd frame is
/// smaller.
pub(super) fn encode<'a, E: PackEngine>(
    engine: &E,
    raw: Cow<'a, [u8]>,
    codings: &[ZstdCoding],
) -> (u8, Cow<'a, [u8]>) {
    if raw.is_empty() || codings.is_empty() {
        return (STORE, raw);
    }
    let coded = zstd_smallest(engine, &raw, codings);
    if coded.len() < raw.len() {
        (ZSTD, Cow::Owned(coded))
    } else {
        (STORE, raw)
    }
}

/// Appends a record in the layout that [`Record::parse`] reads.
pub(super) fn write(out: &mut Vec<u8>, method: u8, len_bytes: usize, payload: &[u8]) {
    out.push(method);
    out.extend_from_slice(&(len_bytes as u64).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(payload);
}
