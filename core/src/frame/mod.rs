//! Self-describing frames: each holds one compressed buffer
//! (docs/formats/z4ai-frames.md 2).
//!
//! The bytes of a frame fully determine how it is decoded. [`select`] decides
//! how a buffer is encoded; no decoder depends on it.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes::Cursor;
use crate::digest::{self, Digest};
use crate::engine::Engine;
use crate::{Error, Result, Rule};

#[doc(hidden)]
pub mod chunked;
pub mod delta;
pub mod difference;
mod family;
#[doc(hidden)]
pub mod intervals;
#[doc(hidden)]
pub mod lattice;
#[doc(hidden)]
pub mod palette;
#[cfg(feature = "plan")]
pub mod plan;
#[doc(hidden)]
pub mod plane;
mod rans_blocks;
mod registry;
pub mod select;
#[doc(hidden)]
pub mod sparse;
mod stored_or_zstd;
#[doc(hidden)]
pub mod turbo;
#[doc(hidden)]
pub mod z4ai;
#[doc(hidden)]
pub mod zara;

#[doc(hidden)]
pub use family::FrameFamily;
pub(crate) use family::decoded_len;
pub use family::{FrameInfo, NumPy};
pub(crate) use registry::printable;
pub use registry::{Families, Family, Frame, describe};

/// Decodes `bytes`, which must be exactly one frame.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) if the frame decodes to more than
/// `limit_bytes` bytes, and errors for a malformed frame.
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

/// A frame inside a container that has been checked to decode to the expected
/// number of bytes.
///
/// Bytes after the end of the frame are allowed
/// (docs/formats/z4ai-containers.md 2.6).
#[derive(Debug, Clone)]
pub struct ContainedFrame<'a>(Frame<'a>);

impl<'a> ContainedFrame<'a> {
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
    /// [`ContainedFrame::parse`].
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.0.decode(engine, out)
    }

    /// Decodes like [`ContainedFrame::decode`], and returns the digest of `out`.
    pub(crate) fn decode_and_hash<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<Digest> {
        if let Frame::Z4ai(frame) = &self.0 {
            return frame.decode_and_hash(engine, out);
        }
        self.0.decode(engine, out)?;
        Ok(digest::of(engine, out))
    }
}

/// The set of frame families that a container may use. The version field of the
/// container identifies its edition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Edition {
    /// Plain containers use only the frame families that every reader supports.
    /// z4ai is one of these readers.
    #[default]
    Plain,
    /// Extended containers may also use extension frames, which only zstn
    /// supports.
    Extended,
    /// Deltas with records that are decoded from another tensor of the base than
    /// the one of their name, or from a part of one. They may also use extension
    /// frames.
    Paired,
}

impl Edition {
    /// Returns the edition that a container needs in order to hold this frame.
    #[must_use]
    pub fn of_frame(frame: &[u8]) -> Self {
        match Family::recognise(frame) {
            Some(family) if Families::CONTAINER.contains(family) => Self::Plain,
            Some(family) if Families::EXTENDED.contains(family) => Self::Extended,
            _ => Self::Plain,
        }
    }

    /// Returns the frame families that the edition allows.
    #[must_use]
    pub fn families(self) -> Families {
        match self {
            Self::Extended | Self::Paired if cfg!(feature = "extensions") => Families::EXTENDED,
            _ => Families::CONTAINER,
        }
    }

    /// Reads the version of a file of type `what`. `versions` are the version
    /// numbers of the editions that such files have, in order. Any other number is
    /// a violation of `rule`; so is the number of any edition but the plain one in
    /// a build without the feature `extensions`.
    pub(crate) fn read(
        cursor: &mut Cursor,
        versions: &[u8],
        rule: Rule,
        what: &str,
    ) -> Result<Self> {
        if cfg!(not(feature = "extensions")) {
            return cursor
                .expect_version(versions[0], rule, what)
                .map(|()| Self::Plain);
        }
        let at = cursor.position() as u64;
        let version = cursor.u8("the version")?;
        let editions = [Self::Plain, Self::Extended, Self::Paired];
        let mut known = versions.iter().zip(editions);
        match known.find(|(number, _)| **number == version) {
            Some((_, edition)) => Ok(edition),
            None => {
                let (first, last) = (versions[0], versions[versions.len() - 1]);
                let word = if last - first == 1 { "and" } else { "to" };
                let detail = format!(
                    "version {version} of a {what}; this reader knows versions {first} {word} \
                     {last}"
                );
                Err(Error::malformed(rule, detail).at(at))
            }
        }
    }

    /// Returns the version number of this edition, given the numbers of all
    /// editions that such a file has.
    pub(crate) fn number(self, versions: &[u8]) -> u8 {
        let last = versions.len() - 1;
        versions[last.min(self as usize)]
    }
}
