//! Decodes streams of flat codes. In a flat code, every symbol is its own code,
//! so a stream consists of packed numbers, starting with the last one. Shifts
//! unpack eight of them at a time.

use super::Fault;
use super::streams::{Backwards, END};

/// Number of symbols that always fill whole bytes.
const GROUP: usize = 8;

/// Decodes one stream, which must fill `bytes`, into `out`. Every symbol has
/// `bits` bits, 1 to 7.
pub fn decode(bits: u32, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let mut stream = Backwards::new(bytes)?;
    if stream.left != out.len() * bits as usize {
        return Err(END);
    }
    let (first, groups) = out.as_rchunks_mut::<GROUP>();
    for symbol in first {
        *symbol = stream.take(bits).ok_or(END)?.to_le_bytes()[0];
    }
    match bits {
        // The mantissas of bfloat16 have seven bits. Passing a constant lets the
        // compiler use constant shifts.
        7 => {
            let (bytes, groups) = sevens_at_once(bytes, groups);
            take_apart(7, bytes, groups);
        }
        _ => take_apart(bits, bytes, groups),
    }
    Ok(())
}

/// Unpacks groups of seven-bit symbols with vectors, and returns the rest of the
/// stream and the remaining groups, which precede the unpacked ones.
#[cfg(target_arch = "x86_64")]
fn sevens_at_once<'b, 'g>(
    bytes: &'b [u8],
    groups: &'g mut [[u8; GROUP]],
) -> (&'b [u8], &'g mut [[u8; GROUP]]) {
    use crate::entropy::zstd::avx2::{CODED_BYTES, SYMBOLS, unpack};
    let (_, symbols) = groups.as_flattened_mut().as_rchunks_mut::<SYMBOLS>();
    let done = unpack(bytes, symbols).unwrap_or(0);
    let left = groups.len() - done * SYMBOLS / GROUP;
    (&bytes[done * CODED_BYTES..], &mut groups[..left])
}

#[cfg(not(target_arch = "x86_64"))]
fn sevens_at_once<'b, 'g>(
    bytes: &'b [u8],
    groups: &'g mut [[u8; GROUP]],
) -> (&'b [u8], &'g mut [[u8; GROUP]]) {
    (bytes, groups)
}

#[inline(always)]
fn take_apart(bits: u32, bytes: &[u8], groups: &mut [[u8; GROUP]]) {
    let step = bits as usize;
    // A read of a word extends past its group, but within a run at most to the
    // end of the checked range.
    let readable = match bytes.len().checked_sub(8 * RUN) {
        Some(beyond) => 1 + beyond / (RUN * step),
        None => 0,
    };
    let inside = RUN * readable.min(groups.len() / RUN);
    let (outer, inner) = groups.split_at_mut(groups.len() - inside);
    let (runs, _) = inner.as_chunks_mut::<RUN>();
    for (run, at) in runs.iter_mut().rev().zip((0..).step_by(RUN * step)) {
        let Some(words) = bytes[at..].first_chunk::<{ 8 * RUN }>() else {
            return;
        };
        for (k, group) in run.iter_mut().rev().enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(&words[k * step..k * step + 8]);
            *group = apart(bits, u64::from_le_bytes(word));
        }
    }
    for (group, at) in outer.iter_mut().rev().zip((inside * step..).step_by(step)) {
        let mut word = [0; 8];
        word[..step].copy_from_slice(&bytes[at..at + step]);
        *group = apart(bits, u64::from_le_bytes(word));
    }
}

/// Number of groups that are unpacked between two checks of the remaining input.
const RUN: usize = 8;

/// Unpacks eight numbers into one byte each. The last number is in the lowest
/// bits of `word`.
#[inline(always)]
fn apart(bits: u32, word: u64) -> [u8; GROUP] {
    // Separates halves, quarters and eighths, and moves each to its final
    // position.
    let four = (1 << (4 * bits)) - 1;
    let two = ((1 << (2 * bits)) - 1) * 0x0000_0001_0000_0001;
    let one = ((1 << bits) - 1) * 0x0001_0001_0001_0001;
    let word = word & four | (word >> (4 * bits) & four) << 32;
    let word = word & two | (word >> (2 * bits) & two) << 16;
    let word = word & one | (word >> bits & one) << 8;
    word.to_be_bytes()
}
