//! The streams of a `ZARA` frame (docs/formats/z4ai-frames.md 11.3). Their
//! method numbers differ from the plane methods of `Z4AI`.

use alloc::borrow::Cow;

use crate::bytes::{self, Cursor};
use crate::engine::Engine;
use crate::entropy::{brotli, rans};
use crate::frame::stream::{Record, STORE, Stream as Plain, ZSTD};
use crate::{Error, Result};

pub(super) const BROTLI: u8 = 2;
pub(super) const RANS: u8 = 3;
pub(super) const BROTLI_BLOCKS: u8 = 4;

/// A stream whose payload has been checked as far as is possible without
/// decoding it.
#[derive(Debug, Clone)]
pub struct Stream<'a> {
    len_bytes: u64,
    coding: Coding<'a>,
}

#[derive(Debug, Clone)]
enum Coding<'a> {
    Plain(Plain<'a>),
    Brotli(&'a [u8]),
    Rans(rans::Shared<'a>),
    BrotliBlocks(brotli::Blocks<'a>),
}

impl<'a> Stream<'a> {
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<Self> {
        let record = Record::parse(cursor)?;
        let (payload, len_bytes) = (record.payload, record.len_bytes);
        let within = |error: Error| error.within(record.payload_at);
        let coding = match record.method {
            STORE | ZSTD => Coding::Plain(Plain::parse(&record)?),
            BROTLI => Coding::Brotli(payload),
            RANS => Coding::Rans(rans::Shared::parse(payload, len_bytes).map_err(within)?),
            BROTLI_BLOCKS => {
                Coding::BrotliBlocks(brotli::Blocks::parse(payload, len_bytes).map_err(within)?)
            }
            _ => return Err(record.unknown_method()),
        };
        Ok(Self { len_bytes, coding })
    }

    /// Returns the decoded length that the record states. For brotli, only
    /// decoding shows whether it is correct.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the decoded stream; a stored one is borrowed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        match &self.coding {
            Coding::Plain(stream) => stream.decode(engine),
            Coding::Brotli(payload) => brotli::decode(payload, self.len_bytes).map(Cow::Owned),
            Coding::Rans(stream) => {
                let mut out = bytes::buffer(self.len_bytes)?;
                stream.decode(engine, &mut out)?;
                Ok(Cow::Owned(out))
            }
            Coding::BrotliBlocks(blocks) => blocks.decode(engine).map(Cow::Owned),
        }
    }
}
