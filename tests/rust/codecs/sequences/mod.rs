//! zstd frames with sequences: `Pure` returns the same bytes as C zstd, and accepts no
//! frame that C zstd refuses.

mod damage;
mod frames;

use zstn_core::entropy;
use zstn_tests::rng::Rng;

use super::decoders::{STRICT, by_c, by_pure};

/// Counts the outcomes of the comparison of both engines.
#[derive(Debug, Default)]
struct Tally {
    /// Frames accepted by both engines with the same bytes.
    accepted: usize,
    refused: usize,
    /// Frames accepted by C zstd alone, for one of the reasons in [`STRICT`].
    strict: usize,
}

impl Tally {
    /// Decodes `frame` with both engines, if it passes the check that precedes every
    /// engine.
    fn compare(&mut self, frame: &[u8], len: usize) {
        if entropy::zstd::check(frame, len as u64).is_err() {
            return;
        }
        match (by_pure(frame, len), by_c(frame, len)) {
            (Ok(ours), Some(theirs)) => {
                assert!(ours == theirs, "other bytes: {frame:02X?}");
                self.accepted += 1;
            }
            (Ok(_), None) => panic!("C zstd refuses {len} bytes of {frame:02X?}"),
            (Err(why), Some(_)) => {
                assert!(STRICT.contains(&&*why), "{why}: {frame:02X?}");
                self.strict += 1;
            }
            (Err(_), None) => self.refused += 1,
        }
    }
}

/// Features of a frame by C zstd that the tests rely on.
#[derive(Debug, Default, Clone, Copy)]
struct Shape {
    blocks: usize,
    /// Number of blocks with sequences.
    with_sequences: usize,
    /// Number of those blocks whose literals have a Huffman code: in one stream, in
    /// four, and with the code of an earlier block.
    one_stream: usize,
    four_streams: usize,
    treeless: usize,
}

impl Shape {
    /// Parses a frame with a content size and without a checksum.
    fn of(frame: &[u8]) -> Self {
        let mut rest = &frame[header_bytes(frame)..];
        let mut shape = Self::default();
        while let [a, b, c, body @ ..] = rest {
            let head = u32::from_le_bytes([*a, *b, *c, 0]);
            let len = (head >> 3) as usize;
            let len = if head >> 1 & 3 == 1 { 1 } else { len };
            let (block, behind) = body.split_at(len);
            rest = behind;
            shape.blocks += 1;
            if head >> 1 & 3 == 2 {
                shape.add(block);
            }
        }
        shape
    }

    fn add(&mut self, block: &[u8]) {
        let mut word = [0; 8];
        let len = block.len().min(5);
        word[..len].copy_from_slice(&block[..len]);
        let word = u64::from_le_bytes(word);
        let (kind, format) = (word & 3, word >> 2 & 3);
        let (head, size) = match (kind, format) {
            (0 | 1, 0 | 2) => (1, word >> 3 & 0x1F),
            (0 | 1, 1) => (2, word >> 4 & 0xFFF),
            (0 | 1, _) => (3, word >> 4 & 0xF_FFFF),
            (_, 0 | 1) => (3, word >> 14 & 0x3FF),
            (_, 2) => (4, word >> 18 & 0x3FFF),
            (_, _) => (5, word >> 22 & 0x3_FFFF),
        };
        let size = if kind == 1 { 1 } else { size };
        let section = head + usize::try_from(size).expect("20 bits");
        if block[section] == 0 {
            return;
        }
        self.with_sequences += 1;
        match (kind, format) {
            (2, 0) => self.one_stream += 1,
            (2, _) => self.four_streams += 1,
            (3, _) => self.treeless += 1,
            _ => {}
        }
    }
}

/// Returns the length of the header of a frame without a dictionary.
fn header_bytes(frame: &[u8]) -> usize {
    let descriptor = frame[4];
    let window = usize::from(descriptor & 0x20 == 0);
    5 + window + [1 - window, 2, 4, 8][usize::from(descriptor >> 6)]
}

/// Returns bytes with repetitions between literals of `symbols` distinct values: words
/// from a small dictionary, noise, and distant copies.
fn text(rng: &mut Rng, len: usize, symbols: u64) -> Vec<u8> {
    let mut below = |n: u64| usize::try_from(rng.next_u64() % n).expect("small");
    let words: Vec<Vec<u8>> = (0..24)
        .map(|_| {
            let len = 3 + below(14);
            (0..len).map(|_| below(symbols).to_le_bytes()[0]).collect()
        })
        .collect();
    let mut out = Vec::new();
    while out.len() < len {
        match below(8) {
            0..4 => out.extend_from_slice(&words[below(24)]),
            4..7 => {
                let many = 1 + below(20);
                out.extend((0..many).map(|_| below(symbols).min(below(symbols)).to_le_bytes()[0]));
            }
            _ if out.is_empty() => {}
            _ => {
                let from = below(out.len() as u64);
                let to = out.len().min(from + 4 + below(300));
                out.extend_from_within(from..to);
            }
        }
    }
    out.truncate(len);
    out
}

/// Compresses `bytes` with C zstd.
fn frame(bytes: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(bytes, level).expect("compressed")
}

const LEVELS: [i32; 5] = [-5, 1, 3, 9, 19];
