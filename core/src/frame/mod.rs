//! One buffer to a self-describing frame and back
//! (docs/formats/z4ai-frames.md 2).
//!
//! Decoders are driven by the bytes alone. What an encoder prefers is decided
//! in [`select`], which no decoder sees.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::{Error, Result, Rule};

pub mod auto;
pub mod chunked;
pub mod delta;
mod numpy;
pub mod palette;
pub mod plane;
pub mod select;
pub mod sparse;
mod stream;
pub mod turbo;
pub mod z4ai;

pub use numpy::NumPy;

/// The frame families, distinguished by their magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `Z4AI`, the general frame.
    Z4ai,
    /// `ZSP1`, mostly zeros.
    Sparse,
    /// `ZPL1`, few distinct values.
    Palette,
    /// `ZARA`, z4ai's higher efforts.
    Auto,
    /// `ZRT1`, only inside `ZSP1`.
    Turbo,
    /// `Z4AIMF01`, chunk by chunk.
    Chunked,
}

/// The eight-byte magic comes first, since it begins with a four-byte one.
const MAGICS: [(&[u8], Family); 6] = [
    (chunked::MAGIC, Family::Chunked),
    (&z4ai::MAGIC, Family::Z4ai),
    (sparse::MAGIC, Family::Sparse),
    (palette::MAGIC, Family::Palette),
    (auto::MAGIC, Family::Auto),
    (turbo::MAGIC, Family::Turbo),
];

impl Family {
    /// Returns the family of a frame that starts with `bytes`.
    #[must_use]
    pub fn recognise(bytes: &[u8]) -> Option<Self> {
        MAGICS
            .into_iter()
            .find_map(|(magic, family)| bytes.starts_with(magic).then_some(family))
    }

    /// Returns the magic and a word for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Z4ai => "Z4AI",
            Self::Sparse => "ZSP1 (sparse)",
            Self::Palette => "ZPL1 (palette)",
            Self::Auto => "ZARA (auto)",
            Self::Turbo => "ZRT1 (turbo)",
            Self::Chunked => "Z4AIMF01 (chunked)",
        }
    }

    /// Returns whether z4ai reads such a frame inside a container
    /// (docs/formats/z4ai-containers.md 0).
    #[must_use]
    pub fn belongs_in_container(self) -> bool {
        matches!(self, Self::Z4ai | Self::Sparse | Self::Palette)
    }
}

/// A frame of any family whose fields are consistent.
#[derive(Debug, Clone)]
pub enum Frame<'a> {
    /// `Z4AI`.
    Z4ai(z4ai::Frame<'a>),
    /// `ZSP1`.
    Sparse(sparse::Frame<'a>),
    /// `ZPL1`.
    Palette(palette::Frame<'a>),
    /// `ZARA`.
    Auto(auto::Frame<'a>),
    /// `ZRT1`.
    Turbo(turbo::Frame<'a>),
    /// `Z4AIMF01`.
    Chunked(chunked::Frame<'a>),
}

macro_rules! each {
    ($any:expr, $frame:ident => $result:expr) => {
        match $any {
            Frame::Z4ai($frame) => $result,
            Frame::Sparse($frame) => $result,
            Frame::Palette($frame) => $result,
            Frame::Auto($frame) => $result,
            Frame::Turbo($frame) => $result,
            Frame::Chunked($frame) => $result,
        }
    };
}

impl<'a> Frame<'a> {
    /// Reads the frame at the start of `bytes`, checking everything that can
    /// be checked without decoding; anything may follow it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        match Family::recognise(bytes) {
            Some(Family::Z4ai) => z4ai::Frame::parse(bytes).map(Self::Z4ai),
            Some(Family::Sparse) => sparse::Frame::parse(bytes).map(Self::Sparse),
            Some(Family::Palette) => palette::Frame::parse(bytes).map(Self::Palette),
            Some(Family::Auto) => auto::Frame::parse(bytes).map(Self::Auto),
            Some(Family::Turbo) => turbo::Frame::parse(bytes).map(Self::Turbo),
            Some(Family::Chunked) => chunked::Frame::parse(bytes).map(Self::Chunked),
            None if MAGICS.iter().any(|(magic, _)| magic.starts_with(bytes)) => {
                Err(Error::malformed(Rule::Truncated, "the frame ends inside its magic").at(0))
            }
            None => Err(Error::malformed(
                Rule::FrameMagic,
                format!(
                    "no frame starts here: its first bytes are {}",
                    printable(&bytes[..bytes.len().min(4)])
                ),
            )
            .at(0)),
        }
    }

    /// Returns NumPy's description of the array, if the frame has one.
    #[must_use]
    pub fn numpy(&self) -> Option<&NumPy<'a>> {
        match self {
            Self::Z4ai(frame) => frame.numpy(),
            Self::Sparse(frame) => frame.numpy(),
            Self::Palette(frame) => frame.numpy(),
            Self::Auto(frame) => frame.numpy(),
            Self::Turbo(_) | Self::Chunked(_) => None,
        }
    }

    /// Returns the length of the frame.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        each!(self, frame => frame.stored_len())
    }

    /// Returns the length that it decodes to.
    #[must_use]
    pub fn decoded_len_bytes(&self) -> u64 {
        each!(self, frame => frame.decoded_len_bytes())
    }

    /// Decodes into `out`.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if out.len() as u64 != self.decoded_len_bytes() {
            return Err(Error::invalid_input(
                "the buffer is not as long as the frame's content",
            ));
        }
        each!(self, frame => frame.decode(engine, out))
    }

    /// Decodes into a buffer of its own.
    pub fn decompress<E: Engine>(&self, engine: &E) -> Result<Vec<u8>> {
        each!(self, frame => frame.decompress(engine))
    }
}

/// Decodes a frame that fills `bytes`, to at most `limit_bytes` bytes.
pub fn decompress<E: Engine>(engine: &E, bytes: &[u8], limit_bytes: u64) -> Result<Vec<u8>> {
    let frame = Frame::parse(bytes)?;
    if frame.stored_len() != bytes.len() {
        return Err(Error::malformed(
            Rule::FrameTrailing,
            format!(
                "{} bytes follow the frame",
                bytes.len() - frame.stored_len()
            ),
        )
        .at(frame.stored_len() as u64));
    }
    let len_bytes = frame.decoded_len_bytes();
    if len_bytes > limit_bytes {
        return Err(Error::limit(format!(
            "the frame decodes to {len_bytes} bytes, over the limit of {limit_bytes}"
        )));
    }
    frame.decompress(engine)
}

/// A frame as a container holds it, checked to decode to `len_bytes` bytes.
///
/// Bytes after the frame proper are allowed
/// (docs/formats/z4ai-containers.md 2.6).
#[derive(Debug, Clone)]
pub struct Stored<'a>(Frame<'a>);

impl<'a> Stored<'a> {
    /// Reads and checks everything that can be checked without decoding.
    /// After this the input has justified an output of `len_bytes`.
    pub fn parse(bytes: &'a [u8], len_bytes: u64) -> Result<Self> {
        if let Some(family) = Family::recognise(bytes)
            && !family.belongs_in_container()
        {
            return Err(Error::malformed(
                Rule::ZstnFrameKind,
                format!("a frame of kind {} inside a container", family.name()),
            )
            .at(0));
        }
        let frame = Frame::parse(bytes)?;
        if frame.decoded_len_bytes() != len_bytes {
            return Err(Error::malformed(
                Rule::ZstnDecodedLength,
                format!(
                    "the frame holds {} bytes where {len_bytes} are expected",
                    frame.decoded_len_bytes()
                ),
            )
            .at(0));
        }
        Ok(Self(frame))
    }

    /// Returns the frame itself.
    #[must_use]
    pub fn frame(&self) -> &Frame<'a> {
        &self.0
    }

    /// Decodes into `out`, which must have the length given to
    /// [`Stored::parse`].
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.0.decode(engine, out)
    }
}

fn check_magic(cursor: &mut Cursor, magic: &[u8]) -> Result<()> {
    if cursor.take(magic.len() as u64, "frame magic")? == magic {
        return Ok(());
    }
    let detail = format!("not a frame of kind {}", printable(magic));
    Err(Error::malformed(Rule::FrameMagic, detail).at(0))
}

fn check_version(cursor: &mut Cursor, expected: u8) -> Result<()> {
    let at = cursor.position() as u64;
    let version = cursor.u8("frame version")?;
    if version == expected {
        return Ok(());
    }
    let detail = format!("frame version {version}, only {expected} exists");
    Err(Error::malformed(Rule::FrameVersion, detail).at(at))
}

/// Returns the length of that many elements and the tail after them.
pub(crate) fn decoded_len(elements: u64, item_bytes: u64, tail: &[u8]) -> Result<u64> {
    elements
        .checked_mul(item_bytes)
        .and_then(|body| body.checked_add(tail.len() as u64))
        .ok_or_else(|| {
            Error::malformed(
                Rule::FramePlaneLength,
                "the frame decodes to over 2^64 bytes",
            )
        })
}

/// Formats `bytes` for a message: as text if they are text, otherwise in hex.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| !c.is_control()) => {
            format!("\"{text}\"")
        }
        _ if bytes.is_empty() => "missing".into(),
        _ => {
            let mut out = String::new();
            for byte in bytes {
                out.push_str(&format!("{byte:02X} "));
            }
            out.pop();
            out
        }
    }
}
