//! The sequences section of a block (RFC 8878, 3.1.1.3.2). Each sequence
//! consists of a number of literals, followed by a match with a length and a
//! distance.

use super::Fault;
use super::numbers::{NUMBERS, Table};
use super::output::Output;
use super::streams::Backwards;

/// Parses the number of sequences at the start of `section`, and returns the
/// bytes after it. A count of zero must be the end of the section.
pub fn count(section: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let (count, rest) = match section {
        [count @ ..0x80, rest @ ..] => (u32::from(*count), rest),
        [0xFF, low, high, rest @ ..] => {
            let above = u32::from(u16::from_le_bytes([*low, *high]));
            (0x7F00 + above, rest)
        }
        [high @ 0x80..=0xFE, low, rest @ ..] => {
            let count = u16::from_be_bytes([high - 0x80, *low]);
            (count.into(), rest)
        }
        _ => return Err(SHORT),
    };
    if count == 0 && !rest.is_empty() {
        return Err(Fault("bytes follow the sequences of a block"));
    }
    Ok((count, rest))
}

/// The state that a block inherits from earlier blocks.
pub struct Sequences {
    /// The tables of literal lengths, offsets and match lengths.
    tables: [Option<Table>; 3],
    /// The last three offsets, starting with the most recent one.
    recent: [usize; 3],
}

impl Sequences {
    /// Creates the state of the first block.
    pub fn new() -> Self {
        Self {
            tables: [None, None, None],
            recent: [1, 4, 8],
        }
    }

    /// Decodes `count` sequences from `section`, which starts after the count,
    /// and appends the resulting bytes to `out`. `literals` are the literals of
    /// the block.
    pub fn decode(
        &mut self,
        count: u32,
        section: &[u8],
        mut literals: &[u8],
        out: &mut Output,
    ) -> Result<(), Fault> {
        let (&modes, mut rest) = section.split_first().ok_or(SHORT)?;
        if modes & 3 != 0 {
            return Err(Fault("reserved bits of a sequences section are set"));
        }
        for (number, shift) in [(0, 6), (1, 4), (2, 2)] {
            let table = &mut self.tables[number];
            rest = NUMBERS[number].read(modes >> shift & 3, rest, table)?;
        }
        let [Some(lengths), Some(offsets), Some(matches)] = &self.tables else {
            return Err(Fault("a block reuses a table, but none precedes it"));
        };
        let mut stream = Backwards::new(rest).map_err(|_| END)?;
        let mut start = |table: &Table| stream.take(table.log).ok_or(END);
        let mut states = [start(lengths)?, start(offsets)?, start(matches)?];
        for left in (0..count).rev() {
            let length = lengths.state(states[0]);
            let offset = offsets.state(states[1]);
            let matched = matches.state(states[2]);
            // At most 31 and 16 bits, out of 57 available ones.
            let mut window = stream.window();
            let distance = offset.base + take(&mut window, offset.more);
            let match_len = matched.base + take(&mut window, matched.more);
            stream.skip(offset.more + matched.more).ok_or(END)?;
            // At most 16 bits, and 26 bits for the next states.
            let mut window = stream.window();
            let literal_len = length.base + take(&mut window, length.more);
            let mut taken = length.more;
            if left > 0 {
                states[0] = length.next + take(&mut window, length.bits);
                states[2] = matched.next + take(&mut window, matched.bits);
                states[1] = offset.next + take(&mut window, offset.bits);
                taken += length.bits + matched.bits + offset.bits;
            }
            stream.skip(taken).ok_or(END)?;
            let copied = literals
                .split_off(..literal_len)
                .ok_or(Fault("a sequence needs more literals than its block has"))?;
            out.claim(copied.len())?.copy_from_slice(copied);
            let distance = recent_or_new(&mut self.recent, distance, literal_len == 0);
            out.repeat(distance, match_len)?;
        }
        if stream.left > 0 {
            return Err(END);
        }
        out.claim(literals.len())?.copy_from_slice(literals);
        Ok(())
    }
}

/// Returns the distance that `value` represents. A value of up to 3 selects one
/// of the `recent` distances; the selection is shifted by one if the match
/// follows no literals (3.1.1.5).
fn recent_or_new(recent: &mut [usize; 3], value: usize, no_literals: bool) -> usize {
    let [first, second, third] = *recent;
    let (distance, others) = match (value, no_literals) {
        (1, false) => return first,
        (1, true) | (2, false) => (second, [first, third]),
        (2, true) | (3, false) => (third, [first, second]),
        // Zero if the first distance was 1; `Output::repeat` rejects it.
        (3, true) => (first - 1, [first, second]),
        _ => (value - 3, [first, second]),
    };
    *recent = [distance, others[0], others[1]];
    distance
}

/// Removes the topmost bits from `window` and returns them.
#[inline(always)]
fn take(window: &mut u64, bits: u32) -> usize {
    // Shifting in two steps avoids a shift by 64 if `bits` is 0.
    let taken = *window >> 1 >> (63 - bits);
    *window <<= bits;
    #[allow(clippy::cast_possible_truncation)] // at most 31 bits
    let taken = taken as usize;
    taken
}

const SHORT: Fault = Fault("a block ends before its sequences");
const END: Fault = Fault("the sequences of a block do not end with its last byte");
