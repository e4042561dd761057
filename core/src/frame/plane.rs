//! A coded plane of a frame: its method, its decoded length and its payload
//! (docs/formats/z4ai-frames.md 3.1 and 4).
//!
//! To add a plane method, implement its codec in [`entropy`](crate::entropy)
//! and list it in `methods!`; encoders select it with a
//! [`Codec`](crate::frame::z4ai::Codec).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{self, Cursor};
use crate::engine::Engine;
use crate::entropy::blocks::Blocks;
use crate::entropy::{rans, zstd};
use crate::{Error, Result, Rule};

/// Length in bytes of a plane record before its payload.
pub const HEAD_BYTES: usize = 17;

/// A plane record whose payload has been checked as far as is possible without
/// decoding it.
#[derive(Debug, Clone)]
pub struct Plane<'a> {
    method: Method,
    len_bytes: u64,
    payload: &'a [u8],
    coded: Coded<'a>,
}

impl<'a> Plane<'a> {
    /// Parses a plane record.
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

    /// Parses a payload whose record the caller has already parsed. Offsets in
    /// errors count from the start of the payload.
    pub(crate) fn new(method: Method, len_bytes: u64, payload: &'a [u8]) -> Result<Self> {
        Ok(Self {
            method,
            len_bytes,
            payload,
            coded: Coded::parse(method, payload, len_bytes)?,
        })
    }

    /// Returns the coding method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the decoded length in bytes. The payload has been checked to be
    /// long enough for it.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length of the payload in bytes.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.payload.len() as u64
    }

    /// Returns the payload, which is still coded.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the independent blocks of a plane coded with [`Method::Blocks`].
    #[must_use]
    pub fn blocks(&self) -> Option<&Blocks<'a>> {
        match &self.coded {
            Coded::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// Returns the parsed payload.
    #[cfg(feature = "plan")]
    pub(crate) fn coded(&self) -> &Coded<'a> {
        &self.coded
    }

    /// Returns the decoded plane, which is borrowed if it is stored
    /// uncompressed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        if self.method == Method::Store {
            return Ok(Cow::Borrowed(self.payload));
        }
        let mut out = bytes::buffer(self.len_bytes)?;
        self.decode_into(engine, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Decodes into `out`, which must be as long as the decoded plane.
    pub fn decode_into<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.coded.decode(engine, out)
    }
}

/// A plane that can be read range by range.
pub enum Pieces<'p, 'a> {
    /// The plane has been decoded as a whole.
    Whole(Cow<'a, [u8]>),
    /// The blocks of a range are decoded on request. Ranges must begin at a
    /// block boundary and consist of whole blocks, except at the end of the
    /// plane.
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

    /// Prepares the plane for reading ranges with [`Pieces::get`]. The plane
    /// consists of parts of `part_bytes` bytes, and every range begins a
    /// multiple of `step` bytes after the start of a part. If all these
    /// positions are block boundaries, blocks are decoded on request; otherwise
    /// the whole plane is decoded immediately.
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
    /// Returns the bytes `range` of the plane. Blocks are decoded into
    /// `scratch`.
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

/// Returns the part of a plane record that precedes the payload.
#[must_use]
pub fn head(method: Method, len_bytes: u64, payload_len_bytes: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = method as u8;
    head[1..9].copy_from_slice(&len_bytes.to_le_bytes());
    head[9..].copy_from_slice(&payload_len_bytes.to_le_bytes());
    head
}

/// Appends a plane record with this payload.
pub fn write(out: &mut Vec<u8>, method: Method, len_bytes: u64, payload: &[u8]) {
    out.extend_from_slice(&head(method, len_bytes, payload.len() as u64));
    out.extend_from_slice(payload);
}

macro_rules! methods {
    ($( $(#[$doc:meta])* $method:ident = $id:literal, $name:literal, $payload:ty; )*) => {
        /// The coding of a plane. The discriminants are the method numbers of
        /// the `Z4AI` frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Method { $( $(#[$doc])* $method = $id, )* }

        impl Method {
            /// All methods, in the order of their numbers.
            pub const ALL: &[Self] = &[ $( Self::$method, )* ];

            /// Returns the name of the method, for messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$method => $name, )* }
            }
        }

        /// A payload, checked as far as is possible without decoding it.
        #[derive(Debug, Clone)]
        pub(crate) enum Coded<'a> { $( $method($payload), )* }

        impl<'a> Coded<'a> {
            pub fn parse(method: Method, payload: &'a [u8], len_bytes: u64) -> Result<Self> {
                match method {
                    $( Method::$method => <$payload>::parse(payload, len_bytes).map(Self::$method), )*
                }
            }

            pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
                match self { $( Self::$method(payload) => payload.decode(engine, out), )* }
            }
        }
    };
}

impl Method {
    /// Returns the method that frames call `id`, or `None` if there is none.
    pub(crate) fn from_id(id: u8) -> Option<Self> {
        let mut methods = Self::ALL.iter().copied();
        methods.find(|method| *method as u8 == id)
    }
}

/// A payload that holds the plane uncompressed.
#[derive(Debug, Clone)]
pub(crate) struct StoredPlane<'a>(pub(super) &'a [u8]);

impl<'a> StoredPlane<'a> {
    fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        if payload.len() as u64 == len_bytes {
            return Ok(Self(payload));
        }
        let detail = format!(
            "a stored plane of {len_bytes} bytes has a payload of {}",
            payload.len()
        );
        Err(Error::malformed(Rule::StoreLength, detail).at(0))
    }

    #[allow(clippy::unnecessary_wraps)] // every payload type has this signature
    fn decode<E: Engine>(&self, _: &E, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.0);
        Ok(())
    }
}

/// A payload that is one zstd frame.
#[derive(Debug, Clone)]
pub(crate) struct ZstdFrame<'a>(pub(super) &'a [u8]);

impl<'a> ZstdFrame<'a> {
    fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        zstd::check(payload, len_bytes)?;
        Ok(Self(payload))
    }

    fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        zstd::decode(engine, self.0, out)
    }
}

methods! {
    /// Uncompressed.
    Store = 0, "store", StoredPlane<'a>;
    /// One zstd frame.
    Zstd = 1, "zstd", ZstdFrame<'a>;
    /// Independent zstd blocks.
    Blocks = 2, "zstd blocks", Blocks<'a>;
    /// rANS of order 0 with one table.
    Rans = 3, "rANS", rans::Shared<'a>;
    /// rANS of order 0 with one table per chunk.
    RansAdaptive = 4, "rANS adaptive", rans::Adaptive<'a>;
    /// rANS of order 1: the preceding byte selects the table.
    RansOrder1 = 5, "rANS order 1", rans::Order1<'a>;
}
