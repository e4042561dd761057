//! One coded plane: a method, a decoded length and a payload
//! (docs/formats/z4ai-frames.md 3.1 and 4).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor};
use crate::engine::Engine;
use crate::entropy::blocks::Blocks;
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

/// Bytes of a record in front of its payload.
pub const HEAD_BYTES: usize = 17;

/// How a plane is coded. The numbers are those of the `Z4AI` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// As it is.
    Store = 0,
    /// One zstd frame.
    Zstd = 1,
    /// Independent zstd blocks.
    Blocks = 2,
    /// rANS of order 0, one table.
    Rans = 3,
    /// rANS of order 0, a table per chunk.
    RansAdaptive = 4,
    /// rANS of order 1.
    RansOrder1 = 5,
}

impl Method {
    fn from_id(id: u8) -> Option<Self> {
        [
            Self::Store,
            Self::Zstd,
            Self::Blocks,
            Self::Rans,
            Self::RansAdaptive,
            Self::RansOrder1,
        ]
        .into_iter()
        .find(|method| *method as u8 == id)
    }

    /// Word for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Zstd => "zstd",
            Self::Blocks => "zstd blocks",
            Self::Rans => "rANS",
            Self::RansAdaptive => "rANS adaptive",
            Self::RansOrder1 => "rANS order 1",
        }
    }
}

/// A plane record whose payload has been checked as far as is possible
/// without decoding it.
#[derive(Debug, Clone)]
pub struct Plane<'a> {
    method: Method,
    len_bytes: u64,
    payload: &'a [u8],
    blocks: Option<Blocks<'a>>,
}

impl<'a> Plane<'a> {
    /// Reads one record.
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<Self> {
        let at = cursor.position() as u64;
        let id = cursor.u8("plane method")?;
        let method = Method::from_id(id).ok_or_else(|| {
            Error::malformed(
                Rule::FrameMethod,
                format!("plane method {id} does not exist"),
            )
            .at(at)
        })?;
        let len_bytes = cursor.u64("plane length")?;
        let payload_len = cursor.u64("plane payload length")?;
        let base = cursor.position() as u64;
        let payload = cursor.take(payload_len, "plane payload")?;
        let blocks = match method {
            Method::Store if payload_len != len_bytes => {
                return Err(Error::malformed(
                    Rule::StoreLength,
                    format!("a stored plane of {len_bytes} bytes has a payload of {payload_len}"),
                )
                .at(at));
            }
            Method::Zstd => {
                zstd::check(payload, len_bytes).map_err(|e| e.within(base))?;
                None
            }
            Method::Blocks => Some(Blocks::parse(payload, len_bytes).map_err(|e| e.within(base))?),
            _ => None,
        };
        Ok(Self {
            method,
            len_bytes,
            payload,
            blocks,
        })
    }

    /// How it is coded.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Length once decoded. Justified by the payload for the methods that
    /// [`Plane::supported`] accepts.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Length of the payload.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.payload.len() as u64
    }

    /// Refuses the methods this version does not decode.
    pub fn supported(&self) -> Result<()> {
        match self.method {
            Method::Store | Method::Zstd | Method::Blocks => Ok(()),
            Method::Rans | Method::RansAdaptive | Method::RansOrder1 => {
                Err(Error::unsupported(format!(
                    "planes coded with {}: not supported yet",
                    self.method.name()
                )))
            }
        }
    }

    /// The decoded plane; a stored one is borrowed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        self.supported()?;
        if self.method == Method::Store {
            return Ok(Cow::Borrowed(self.payload));
        }
        let mut out = bytes::buffer(self.len_bytes)?;
        self.decode_into(engine, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Decodes into `out`, which is as long as the plane.
    pub fn decode_into<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.supported()?;
        match &self.blocks {
            Some(blocks) => blocks.decode(engine, out),
            None if self.method == Method::Zstd => zstd::decode(engine, self.payload, out),
            None => {
                out.copy_from_slice(self.payload);
                Ok(())
            }
        }
    }
}

/// The bytes in front of a payload.
#[must_use]
pub fn head(method: Method, len_bytes: u64, payload_len_bytes: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = method as u8;
    head[1..9].copy_from_slice(&len_bytes.to_le_bytes());
    head[9..].copy_from_slice(&payload_len_bytes.to_le_bytes());
    head
}

/// Appends a whole record.
pub fn write(out: &mut Vec<u8>, method: Method, len_bytes: u64, payload: &[u8]) {
    out.extend_from_slice(&head(method, len_bytes, payload.len() as u64));
    out.extend_from_slice(payload);
}
