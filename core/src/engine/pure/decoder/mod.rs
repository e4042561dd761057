//! zstd frames without sequences (RFC 8878): blocks that are stored, one byte
//! repeated, or literals by Huffman codes. Our packer makes most of its frames
//! so, and what has no matches to copy decodes several times faster.
//!
//! What C zstd refuses is refused here. A stream of a Huffman code has to end
//! with its last bit, too, which C zstd's fastest loops do not check.

use alloc::string::String;

use twox_hash::XxHash64;

use crate::Error;
use crate::bytes::index;
use crate::entropy::zstd::{Blocks, Content};

mod code;
mod flat;
mod literals;
mod streams;
mod weights;

use literals::Literals;

/// Why a frame does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(&'static str);

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.0.into()
    }
}

impl From<Error> for Fault {
    fn from(_: Error) -> Self {
        Self("its headers are damaged")
    }
}

/// Whether a block of `frame` has sequences: matches to copy. Looks at the
/// heads of sections only.
pub fn has_sequences(frame: &[u8]) -> Result<bool, Fault> {
    let mut blocks = Blocks::of(frame)?;
    loop {
        let block = blocks.read()?;
        if let Content::Compressed(body) = block.content
            && let Ok((_, sequences)) = Literals::read(body)
            && check_none(sequences) == Err(SEQUENCES)
        {
            return Ok(true);
        }
        if block.is_last {
            return Ok(false);
        }
    }
}

/// Whether the first block of `frame` is literals in a flat code, which shifts
/// take apart faster than any table.
pub fn is_flat(frame: &[u8]) -> bool {
    let first = Blocks::of(frame).and_then(|mut blocks| blocks.read());
    match first.map(|block| block.content) {
        Ok(Content::Compressed(body)) => match Literals::read(body) {
            Ok((literals, sequences)) => literals.are_flat() && check_none(sequences).is_ok(),
            Err(_) => false,
        },
        _ => false,
    }
}

const SEQUENCES: Fault = Fault("a block has sequences");

/// Whether a sequences section says that there are none; nothing may follow.
fn check_none(sequences: &[u8]) -> Result<(), Fault> {
    match sequences {
        [0] | [0x80, 0] => Ok(()),
        [0, ..] | [0x80, 0, ..] => Err(Fault("bytes follow the sequences of a block")),
        [] | [0x80] => Err(Fault("a block ends before its sequences")),
        _ => Err(SEQUENCES),
    }
}

/// Decodes a frame without sequences into the whole of `out`.
pub fn decode(frame: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let mut blocks = Blocks::of(frame)?;
    if blocks
        .content_bytes
        .is_some_and(|len| len != out.len() as u64)
    {
        return Err(Fault("it declares another length"));
    }
    let most = usize::try_from(blocks.cap_bytes).unwrap_or(usize::MAX);
    let mut code = None;
    let mut rest = &mut *out;
    loop {
        let block = blocks.read()?;
        match block.content {
            Content::Raw(bytes) => room(&mut rest, bytes.len())?.copy_from_slice(bytes),
            Content::Run(byte, len) => room(&mut rest, index(len))?.fill(byte),
            Content::Compressed(body) => {
                let (literals, sequences) = Literals::read(body)?;
                if literals.len() > most {
                    return Err(Fault("a block has too many literals"));
                }
                check_none(sequences)?;
                let place = room(&mut rest, literals.len())?;
                literals.decode(&mut code, place)?;
            }
        }
        if block.is_last {
            break;
        }
    }
    if !rest.is_empty() {
        return Err(Fault("it holds fewer bytes than it should"));
    }
    let stored = blocks.checksum()?;
    if !blocks.is_at_end() {
        return Err(Fault("bytes follow it"));
    }
    match stored {
        Some(stored) if XxHash64::oneshot(0, out) & u64::from(u32::MAX) != u64::from(stored) => {
            Err(Fault("the checksum differs"))
        }
        _ => Ok(()),
    }
}

/// The next `len` bytes of what is left to fill.
fn room<'a>(rest: &mut &'a mut [u8], len: usize) -> Result<&'a mut [u8], Fault> {
    rest.split_off_mut(..len)
        .ok_or(Fault("it holds more bytes than it should"))
}
