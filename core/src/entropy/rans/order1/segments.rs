//! A chunk of order 1, which consists of four consecutive segments. Each has
//! its own state and bytes (8.2), and they are decoded side by side to keep the
//! processor busy.

use alloc::format;
use alloc::vec::Vec;
use core::iter;

use super::super::state::{self, Allowance, Emitted, Input, LOWER, Supply, WINDOW_SYMBOLS, Window};
use super::super::table::Lookup;
use super::super::{len_u32, part_lens};
use super::{BITS, SEGMENTS, SLOTS};
use super::{Codes, Contexts};
use crate::bytes::{self, Cursor};
use crate::{Error, Result, Rule};

/// Length in bytes of the segment lengths at the start of every chunk.
pub(super) const HEAD_BYTES: u64 = 4 * SEGMENTS as u64;
const STATE_BYTES: u64 = 4;

/// The streams of the four segments.
#[derive(Debug, Clone)]
pub(super) struct Chunk<'a>([&'a [u8]; SEGMENTS]);

impl<'a> Chunk<'a> {
    /// Divides a chunk into its segments, following the lengths at its start.
    pub fn parse(chunk: &'a [u8]) -> Result<Self> {
        let bad = |detail| Error::malformed(Rule::RansChunks, detail);
        let mut lens = Cursor::new(chunk);
        let mut cursor = Cursor::new(chunk);
        cursor.take(HEAD_BYTES, "rANS segment lengths")?;
        let mut streams: [&[u8]; SEGMENTS] = [&[]; SEGMENTS];
        for stream in &mut streams {
            let len = u64::from(lens.u32("rANS segment length")?);
            if len < STATE_BYTES {
                return Err(bad(format!("a rANS segment of {len} bytes has no state"))
                    .at(cursor.position() as u64));
            }
            *stream = cursor.take(len, "rANS segment")?;
        }
        if cursor.remaining() != 0 {
            return Err(bad(format!(
                "{} bytes follow the last rANS segment",
                cursor.remaining()
            ))
            .at(cursor.position() as u64));
        }
        Ok(Self(streams))
    }

    /// Checks that the segments can hold `symbols` symbols.
    pub(crate) fn check_capacity(
        &self,
        symbols: u64,
        most: u32,
        allowance: &mut Allowance,
    ) -> Result<()> {
        for (stream, symbols) in self.0.iter().zip(part_lens(symbols, SEGMENTS as u64)) {
            let supply = Supply {
                bytes: stream.len() as u64 - STATE_BYTES,
                states: 1,
            };
            allowance.check(symbols, supply, most, BITS)?;
        }
        Ok(())
    }

    /// Decodes into `out`, which the chunk must fill.
    pub fn decode(&self, contexts: &Contexts, out: &mut [u8]) -> Result<()> {
        let [a, b, c, d] = self.0;
        let mut lanes = [
            Lane::new(a, contexts)?,
            Lane::new(b, contexts)?,
            Lane::new(c, contexts)?,
            Lane::new(d, contexts)?,
        ];
        // Lengths of segments differ by at most one symbol.
        let side_by_side = out.len() / SEGMENTS / WINDOW_SYMBOLS * WINDOW_SYMBOLS;
        let mut bodies: [&mut [[u8; WINDOW_SYMBOLS]]; SEGMENTS] = Default::default();
        let mut ends: [&mut [u8]; SEGMENTS] = Default::default();
        let mut rest = out;
        let lens = part_lens(rest.len() as u64, SEGMENTS as u64);
        for (len, (body, end)) in lens.zip(bodies.iter_mut().zip(&mut ends)) {
            let (segment, after) = rest.split_at_mut(bytes::index(len));
            let (front, back) = segment.split_at_mut(side_by_side);
            (*body, *end) = (front.as_chunks_mut().0, back);
            rest = after;
        }
        let [a, b, c, d] = bodies;
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            decode_groups(&mut lanes, contexts, [a, b, c, d])?;
        }
        for (lane, end) in lanes.iter_mut().zip(ends) {
            for byte in end {
                let mut window = lane.input.window();
                *byte = lane.next(&mut window, contexts)?;
                lane.input.consume(window)?;
            }
            lane.input.finish(&[lane.state])?;
        }
        Ok(())
    }
}

/// Decodes four symbols of every segment.
#[inline(always)]
fn decode_groups<'m>(
    lanes: &mut [Lane<'_, 'm>; SEGMENTS],
    contexts: &Contexts<'m>,
    groups: [&mut [u8; WINDOW_SYMBOLS]; SEGMENTS],
) -> Result<()> {
    let [a, b, c, d] = lanes;
    let mut windows = [
        a.input.window(),
        b.input.window(),
        c.input.window(),
        d.input.window(),
    ];
    let [first, second, third, fourth] = groups;
    for (((p, q), r), s) in first.iter_mut().zip(second).zip(third).zip(fourth) {
        *p = a.next(&mut windows[0], contexts)?;
        *q = b.next(&mut windows[1], contexts)?;
        *r = c.next(&mut windows[2], contexts)?;
        *s = d.next(&mut windows[3], contexts)?;
    }
    a.input.consume(windows[0])?;
    b.input.consume(windows[1])?;
    c.input.consume(windows[2])?;
    d.input.consume(windows[3])
}

/// A segment that is being decoded.
struct Lane<'a, 'm> {
    state: u32,
    input: Input<'a>,
    lookup: Option<&'m Lookup<SLOTS>>,
}

impl<'a, 'm> Lane<'a, 'm> {
    fn new(stream: &'a [u8], contexts: &Contexts<'m>) -> Result<Self> {
        let mut cursor = Cursor::new(stream);
        Ok(Self {
            state: state::read(&mut cursor)?,
            input: Input(cursor.rest()),
            lookup: contexts[0],
        })
    }

    #[inline(always)]
    fn next(&mut self, window: &mut Window, contexts: &Contexts<'m>) -> Result<u8> {
        let Some(lookup) = self.lookup else {
            return Err(no_context());
        };
        let symbol = window.next(&mut self.state, lookup);
        self.lookup = contexts[usize::from(symbol)];
        Ok(symbol)
    }
}

#[cold]
#[inline(never)]
fn no_context() -> Error {
    Error::malformed(
        Rule::RansContext,
        "a rANS model lacks the row of a context that occurs",
    )
}

/// Returns the four segments of a chunk.
pub(super) fn split(mut chunk: &[u8]) -> [&[u8]; SEGMENTS] {
    let mut segments: [&[u8]; SEGMENTS] = [&[]; SEGMENTS];
    let lens = part_lens(chunk.len() as u64, SEGMENTS as u64);
    for (segment, len) in segments.iter_mut().zip(lens) {
        (*segment, chunk) = chunk.split_at(bytes::index(len));
    }
    segments
}

/// Encodes a chunk. `codes` must have a row for every context in it. The
/// segments are encoded side by side, as they are decoded.
pub(super) fn encode(chunk: &[u8], codes: &Codes) -> Vec<u8> {
    let mut writers = split(chunk).map(Writer::new);
    let side_by_side = chunk.len() / SEGMENTS;
    for writer in &mut writers {
        let end = side_by_side..writer.segment.len();
        end.rev().for_each(|at| writer.push(at, codes));
    }
    for at in (0..side_by_side).rev() {
        for writer in &mut writers {
            writer.push(at, codes);
        }
    }
    let streams = writers.map(|writer| writer.emitted.stream(&[writer.state]));
    let mut out = Vec::new();
    for stream in &streams {
        out.extend_from_slice(&len_u32(stream).to_le_bytes());
    }
    for stream in &streams {
        out.extend_from_slice(stream);
    }
    out
}

/// A segment that is being encoded, from its end to its start.
struct Writer<'a> {
    segment: &'a [u8],
    state: u32,
    emitted: Emitted,
}

impl<'a> Writer<'a> {
    fn new(segment: &'a [u8]) -> Self {
        Self {
            segment,
            state: LOWER,
            emitted: Emitted::in_buffer(Vec::new(), segment.len()),
        }
    }

    #[inline(always)]
    fn push(&mut self, at: usize, codes: &Codes) {
        let context = if at == 0 { 0 } else { self.segment[at - 1] };
        let code = codes.of(context, self.segment[at]);
        self.emitted.push(iter::once((&mut self.state, code)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, Order1Model};
    use super::*;

    const TEXT: &[u8] = b"abracadabra";
    /// The chunk of the worked example (docs/formats/z4ai-frames.md 17).
    const CHUNK: [u8; 32] = [
        4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0x02, 0xA0, 0xFF, 0x02, 0x01, 0x6C, 0x00,
        0x06, 0x56, 0x35, 0x00, 0x03, 0x00, 0x08, 0x00, 0x02,
    ];

    #[test]
    fn the_worked_example_of_chapter_17() {
        let tables = Counts::of_chunk(TEXT).round();
        assert_eq!(encode(TEXT, &tables.codes()), CHUNK);
        let model = Order1Model::parse(&tables.write()).unwrap();
        let mut out = [0; 11];
        let chunk = Chunk::parse(&CHUNK).unwrap();
        chunk.decode(&model.contexts(), &mut out).unwrap();
        assert_eq!(out, TEXT);
    }

    #[test]
    fn an_empty_segment_is_the_start_state() {
        let codes = Counts::of_chunk(&[7]).round().codes();
        assert_eq!(
            encode(&[7], &codes)[16..28],
            [0, 0, 0x80, 0].repeat(3)[..],
            "the last segment has the symbol"
        );
    }

    #[test]
    fn a_context_without_row_is_an_error() {
        let model = Order1Model::parse(&[0, 1, 0, 5, 0, 16]).unwrap();
        let start = LOWER.to_le_bytes();
        let chunk = Chunk([&start; 4]);
        assert!(chunk.decode(&model.contexts(), &mut [0; 4]).is_ok());
        let error = chunk.decode(&model.contexts(), &mut [0; 5]).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::RansContext));
    }
}
