//! Decoding everything without keeping it, and comparing with the original.

use zstn_core::bytes::part;

use crate::source::{Map, Source};
use crate::unpack::Container;
use crate::{Error, Native, Progress, Result};

/// What was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyReport {
    /// Length of the container.
    pub packed_bytes: u64,
    /// Length of the file it restores.
    pub original_bytes: u64,
    /// Frames decoded.
    pub frames: usize,
    /// Whether every byte was compared with the original.
    pub compared: bool,
}

/// Decodes every frame of `input`; with `original`, compares every byte.
/// Without, damage inside stored planes stays unseen: the format has no
/// checksum of its own.
pub fn verify(
    engine: &Native,
    input: &Map,
    original: Option<&Map>,
    progress: &dyn Progress,
) -> Result<VerifyReport> {
    let container = Container::parse(engine, input)?;
    let header = container.header();
    let data_start = 8 + header.len() as u64;
    if let Some(original) = original {
        let differs = |detail| Error::Differs { detail };
        if original.len_bytes() != container.original_len_bytes() {
            return Err(differs(format!(
                "{} restores {} bytes, {} has {}",
                input.name(),
                container.original_len_bytes(),
                original.name(),
                original.len_bytes()
            )));
        }
        if part(original, 8..data_start) != header
            || original[..8] != (header.len() as u64).to_le_bytes()
        {
            return Err(differs(format!(
                "the header in {} differs from that of {}",
                input.name(),
                original.name()
            )));
        }
    }
    container.decode(engine, progress, |span, bytes| {
        let Some(original) = original else {
            return Ok(());
        };
        let start = data_start + span.start;
        let truth = part(original, start..data_start + span.end);
        match truth.iter().zip(bytes).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(Error::Differs {
                detail: format!(
                    "{} differs from {} at byte {} of the original",
                    input.name(),
                    original.name(),
                    start + at as u64
                ),
            }),
        }
    })?;
    Ok(VerifyReport {
        packed_bytes: input.len_bytes(),
        original_bytes: container.original_len_bytes(),
        frames: container.frame_count(),
        compared: original.is_some(),
    })
}
