//! One buffer to a self-describing frame and back
//! (docs/formats/z4ai-frames.md 2).
//!
//! Decoders are driven by the bytes alone. What an encoder prefers is decided
//! in [`select`], which no decoder sees.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes;
use crate::engine::Engine;
use crate::{Error, Result, Rule};

pub mod delta;
pub mod plane;
pub mod select;
pub mod z4ai;

/// The frame families, told apart by their magic.
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

impl Family {
    /// The family of a frame that starts with `bytes`. The eight-byte magic
    /// is tried first, since it starts with a four-byte one.
    #[must_use]
    pub fn recognise(bytes: &[u8]) -> Option<Self> {
        [
            (&b"Z4AIMF01"[..], Self::Chunked),
            (b"Z4AI", Self::Z4ai),
            (b"ZSP1", Self::Sparse),
            (b"ZPL1", Self::Palette),
            (b"ZARA", Self::Auto),
            (b"ZRT1", Self::Turbo),
        ]
        .into_iter()
        .find_map(|(magic, family)| bytes.starts_with(magic).then_some(family))
    }

    /// The magic and a word for people.
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

    /// Whether z4ai reads such a frame inside a container
    /// (docs/formats/z4ai-containers.md 0).
    #[must_use]
    pub fn belongs_in_container(self) -> bool {
        matches!(self, Self::Z4ai | Self::Sparse | Self::Palette)
    }
}

/// Reads the head of a frame of any supported family.
fn parse(bytes: &[u8]) -> Result<z4ai::Frame<'_>> {
    match Family::recognise(bytes) {
        Some(Family::Z4ai) => z4ai::Frame::parse(bytes),
        Some(other) => Err(Error::unsupported(format!(
            "frames of kind {}: not supported yet",
            other.name()
        ))),
        None if b"Z4AI".starts_with(bytes) => {
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

/// Decodes a frame that fills `bytes`, to at most `limit_bytes` bytes.
pub fn decompress<E: Engine>(engine: &E, bytes: &[u8], limit_bytes: u64) -> Result<Vec<u8>> {
    let frame = parse(bytes)?;
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
    frame.supported()?;
    let mut out = bytes::buffer(len_bytes)?;
    frame.decode(engine, &mut out)?;
    Ok(out)
}

/// A frame as a container holds it, checked to decode to `len_bytes` bytes.
///
/// Bytes after the frame proper are allowed
/// (docs/formats/z4ai-containers.md 2.6).
#[derive(Debug, Clone)]
pub struct Stored<'a>(z4ai::Frame<'a>);

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
        let frame = parse(bytes)?;
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
        frame.supported()?;
        Ok(Self(frame))
    }

    /// The frame itself.
    #[must_use]
    pub fn frame(&self) -> &z4ai::Frame<'a> {
        &self.0
    }

    /// Decodes into `out`, which has the length given to [`Stored::parse`].
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.0.decode(engine, out)
    }
}

/// `bytes` for a message: text where it is text, else hex.
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
