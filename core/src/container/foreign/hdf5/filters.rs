//! The filters of chunks: deflate, shuffle and the checksum Fletcher-32
//! (docs/formats/hdf5.md 6).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use serde::{Deserialize, Serialize};

use super::file::{Fields, refuse};
use crate::bytes::{buffer, index};
use crate::{Error, Result, Rule};

/// The greatest number of bytes that one deflated byte can become.
pub(super) const INFLATION: u64 = 1032;

/// A step by which the values of a chunk were changed before they were stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Filter {
    Deflate,
    /// The bytes of elements of this length were sorted by their significance.
    Shuffle(u64),
    Fletcher32,
}

fn damaged(detail: &'static str) -> Error {
    Error::malformed(Rule::Hdf5Chunk, detail)
}

impl Filter {
    /// Parses the list of filters, in the order in which they were applied.
    ///
    /// # Errors
    /// An unsupported filter, by its number.
    pub fn list(mut fields: Fields, element_bytes: u64) -> Result<Vec<Self>> {
        let at = fields.at;
        let version = fields.u8()?;
        let count = fields.u8()?;
        fields.take(match version {
            1 => 6,
            2 => 0,
            _ => {
                let detail = format!("version {version} of a list of filters is unknown");
                return Err(refuse(Rule::Hdf5Layout, detail, at));
            }
        })?;
        let mut all = Vec::new();
        for _ in 0..count {
            let id = fields.number(2)?;
            let name_bytes = match version == 1 || id >= 256 {
                true => fields.number(2)?,
                false => 0,
            };
            fields.take(2)?;
            let values = fields.number(2)?;
            fields.take(match version {
                1 => name_bytes.next_multiple_of(8),
                _ => name_bytes,
            })?;
            fields.take(4 * values)?;
            fields.take(if version == 1 && values % 2 == 1 {
                4
            } else {
                0
            })?;
            all.push(match id {
                1 => Self::Deflate,
                2 => Self::Shuffle(element_bytes),
                3 => Self::Fletcher32,
                _ => {
                    let detail = format!("its chunks have the filter {id}, which is not read");
                    return Err(Error::unsupported(detail).at(at));
                }
            });
        }
        Ok(all)
    }

    /// Reverses the filters of a chunk of `len_bytes`. Filters with a bit in
    /// `mask` were not applied.
    pub fn reverse<'b>(
        filters: &[Self],
        mask: u32,
        stored: &'b [u8],
        len_bytes: u64,
    ) -> Result<Cow<'b, [u8]>> {
        // Checksums that are inside of other filters make chunks longer.
        let most_bytes = len_bytes.saturating_add(4 * filters.len() as u64);
        let mut bytes = Cow::Borrowed(stored);
        for (number, filter) in filters.iter().enumerate().rev() {
            if mask
                .checked_shr(u32::try_from(number).unwrap_or(32))
                .unwrap_or(0)
                & 1
                == 0
            {
                bytes = filter.reversed(bytes, most_bytes)?;
            }
        }
        match bytes.len() as u64 == len_bytes {
            true => Ok(bytes),
            false => Err(damaged("a chunk does not have the length of its values")),
        }
    }

    fn reversed<'b>(self, bytes: Cow<'b, [u8]>, most_bytes: u64) -> Result<Cow<'b, [u8]>> {
        match self {
            Self::Deflate => inflate(&bytes, most_bytes).map(Cow::Owned),
            Self::Shuffle(width) => unshuffle(&bytes, index(width)).map(Cow::Owned),
            Self::Fletcher32 => {
                let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
                    return Err(damaged("a chunk is too short for its checksum"));
                };
                if fletcher32(content) != u32::from_le_bytes(*stored) {
                    return Err(damaged("a chunk does not match its checksum"));
                }
                let len = content.len();
                Ok(match bytes {
                    Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..len]),
                    Cow::Owned(mut bytes) => {
                        bytes.truncate(len);
                        Cow::Owned(bytes)
                    }
                })
            }
        }
    }
}

/// Inflates a zlib stream to at most `most_bytes`.
fn inflate(stored: &[u8], most_bytes: u64) -> Result<Vec<u8>> {
    let reachable = (stored.len() as u64).saturating_mul(INFLATION);
    let mut out = buffer(most_bytes.min(reachable))?;
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, written) = decompress(&mut state, stored, &mut out, 0, flags);
    if status != TINFLStatus::Done {
        return Err(damaged("a deflated chunk is damaged"));
    }
    out.truncate(written);
    Ok(out)
}

/// Sorts bytes back: all first bytes of the elements come first, then all second
/// bytes. Bytes after the last whole element are not sorted.
fn unshuffle(bytes: &[u8], width: usize) -> Result<Vec<u8>> {
    let mut out = buffer(bytes.len() as u64)?;
    let count = bytes.len() / width.max(1);
    let (sorted, rest) = bytes.split_at(count * width);
    let (elements, out_rest) = out.split_at_mut(count * width);
    out_rest.copy_from_slice(rest);
    if count > 0 {
        for (number, plane) in sorted.chunks_exact(count).enumerate() {
            for (element, byte) in elements.chunks_exact_mut(width).zip(plane) {
                element[number] = *byte;
            }
        }
    }
    Ok(out)
}

/// Returns the checksum of `bytes` as numbers of two bytes, the more significant
/// byte first.
fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut one, mut two) = (0u32, 0u32);
    // The sums of 360 numbers fit in 32 bits.
    for block in bytes.chunks(720) {
        for pair in block.chunks(2) {
            let high = u32::from(pair[0]) << 8;
            one += high | pair.get(1).copied().map_or(0, u32::from);
            two += one;
        }
        (one, two) = (fold(one), fold(two));
    }
    fold(two) << 16 | fold(one)
}
