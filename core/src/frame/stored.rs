//! Frames inside containers.

use alloc::format;

use super::{Edition, Family, Frame};
use crate::engine::Engine;
use crate::{Error, Result, Rule};

/// A frame inside a container that has been checked to decode to the expected
/// number of bytes.
///
/// Bytes after the end of the frame are allowed
/// (docs/formats/z4ai-containers.md 2.6).
#[derive(Debug, Clone)]
pub struct Stored<'a>(Frame<'a>);

impl<'a> Stored<'a> {
    /// Parses the frame and checks everything that can be checked without
    /// decoding. Afterwards it is safe to allocate an output of `len_bytes`
    /// bytes.
    ///
    /// # Errors
    /// The frame is malformed, decodes to another length than `len_bytes`, or
    /// belongs to a family that containers of this `edition` do not allow.
    pub fn parse(bytes: &'a [u8], len_bytes: u64, edition: Edition) -> Result<Self> {
        if let Some(family) = Family::recognise(bytes)
            && !edition.families().contains(family)
        {
            let detail = format!("a container has a frame of kind {}", family.name());
            return Err(Error::malformed(Rule::ZstnFrameKind, detail).at(0));
        }
        let frame = Frame::parse(bytes)?;
        if frame.decoded_len_bytes() != len_bytes {
            return Err(Error::malformed(
                Rule::ZstnDecodedLength,
                format!(
                    "the frame has {} bytes where {len_bytes} are expected",
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

    /// Decodes into `out`, which must be as long as the `len_bytes` given to
    /// [`Stored::parse`].
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.0.decode(engine, out)
    }
}
