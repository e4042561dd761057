//! One coded plane: a method, a decoded length and a payload
//! (docs/formats/z4ai-frames.md 3.1 and 4).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{self, Cursor};
use crate::engine::Engine;
use crate::entropy::blocks::Blocks;
use crate::{Error, Result, Rule};

mod method;

use method::Coded;
pub use method::Method;

/// Bytes of a record before its payload.
pub const HEAD_BYTES: usize = 17;

/// A plane record whose payload has been checked as far as is possible
/// without decoding it.
#[derive(Debug, Clone)]
pub struct Plane<'a> {
    method: Method,
    len_bytes: u64,
    payload: &'a [u8],
    coded: Coded<'a>,
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
        Self::new(method, len_bytes, payload).map_err(|e| e.within(base))
    }

    /// Parses a payload whose record has been parsed elsewhere. Offsets in
    /// errors are relative to its start.
    pub(crate) fn new(method: Method, len_bytes: u64, payload: &'a [u8]) -> Result<Self> {
        Ok(Self {
            method,
            len_bytes,
            payload,
            coded: Coded::parse(method, payload, len_bytes)?,
        })
    }

    /// Returns how it is coded.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the decoded length, which the payload justifies.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length of the payload.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.payload.len() as u64
    }

    /// Returns the coded bytes.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns its independent blocks, if it is [`Method::Blocks`].
    #[must_use]
    pub fn blocks(&self) -> Option<&Blocks<'a>> {
        match &self.coded {
            Coded::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// Returns the decoded plane; a stored one is borrowed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        if self.method == Method::Store {
            return Ok(Cow::Borrowed(self.payload));
        }
        let mut out = bytes::buffer(self.len_bytes)?;
        self.decode_into(engine, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Decodes into `out`, which is as long as the plane.
    pub fn decode_into<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.coded.decode(engine, out)
    }
}

/// A plane whose pieces can be decoded one by one.
pub enum Pieces<'p, 'a> {
    /// All of it is there.
    Whole(Cow<'a, [u8]>),
    /// Each piece is decoded when it is asked for, and is whole blocks.
    Blocks(&'p Blocks<'a>),
}

impl<'a> Plane<'a> {
    /// Returns the decoded length of a block, if the plane is divided into
    /// several.
    #[must_use]
    pub fn block_bytes(&self) -> Option<u64> {
        match &self.coded {
            Coded::Blocks(blocks) if blocks.block_bytes() < self.len_bytes => {
                Some(blocks.block_bytes())
            }
            _ => None,
        }
    }

    /// Makes pieces ready, of which each begins a multiple of `step` bytes into
    /// one of the parts of `part_bytes` that the plane is made of. They are
    /// decoded one by one where such places are borders of blocks, else now.
    pub fn pieces<E: Engine>(
        &self,
        engine: &E,
        part_bytes: u64,
        step: u64,
    ) -> Result<Pieces<'_, 'a>> {
        if let Coded::Blocks(blocks) = &self.coded
            && let Some(size) = self.block_bytes()
            && step.is_multiple_of(size)
            && (part_bytes == self.len_bytes || part_bytes.is_multiple_of(size))
        {
            return Ok(Pieces::Blocks(blocks));
        }
        self.decode(engine).map(Pieces::Whole)
    }
}

impl Pieces<'_, '_> {
    /// Returns the bytes `range` of the plane, decoded into `scratch` if they
    /// are not stored.
    pub fn get<'r, E: Engine>(
        &'r self,
        engine: &E,
        range: Range<usize>,
        scratch: &'r mut Vec<u8>,
    ) -> Result<&'r [u8]> {
        match self {
            Self::Whole(plane) => Ok(&plane[range]),
            Self::Blocks(blocks) => {
                let out = bytes::scratch(scratch, range.len() as u64)?;
                let first = range.start / bytes::index(blocks.block_bytes());
                blocks.decode_from(engine, first, out)?;
                Ok(out)
            }
        }
    }
}

/// Returns the bytes before a payload.
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
