//! zstd frames with sequences: `Pure` returns the same bytes as C zstd, accepts no
//! frame that C zstd refuses, and both agree on damaged frames and on noise.

use serde::Deserialize;
use zstn_core::engine::{PackEngine, ZstdCoding};
use zstn_core::entropy;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, Refusal};
use zstn_tests::rng::Rng;
use zstn_tests::sha256;

use crate::{STRICT, by_c, by_pure};

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

#[derive(Deserialize)]
struct Case {
    name: String,
    decoded_len: usize,
    sha256: String,
    c_zstd: String,
    #[serde(flatten)]
    refusal: Refusal,
}

#[test]
fn frames_that_break_a_rule_are_refused_for_it() {
    #[derive(Deserialize)]
    struct Manifest {
        cases: Vec<Case>,
    }
    let manifest: Manifest =
        serde_json::from_slice(&cases::read("zstd-bad", "manifest.json")).expect("a manifest");
    assert!(manifest.cases.len() > 5);
    for case in manifest.cases {
        let Case { name, .. } = &case;
        let frame = cases::read("zstd-bad", &format!("{name}.zst"));
        assert_eq!(sha256(&frame), case.sha256, "{name}");
        entropy::zstd::check(&frame, case.decoded_len as u64).expect("a frame from outside");
        assert!(Shape::of(&frame).with_sequences > 0, "{name}");
        let mut out = vec![0; case.decoded_len];
        case.refusal
            .check(name, entropy::zstd::decode(&Pure, &frame, &mut out));
        let by_c = by_c(&frame, case.decoded_len).is_some();
        assert_eq!(by_c, case.c_zstd == "accepts", "{name}");
        if !by_c {
            let native = zstn::Engine::new(1).expect("a thread");
            case.refusal
                .check(name, entropy::zstd::decode(&native, &frame, &mut out));
        }
    }
}

#[test]
fn frames_of_all_levels_and_lengths() {
    let mut rng = Rng(21);
    let mut all = Shape::default();
    for len in [
        20, 50, 100, 300, 1000, 4000, 20_000, 131_072, 131_073, 300_000, 1_500_000,
    ] {
        for symbols in [2, 20, 256] {
            let bytes = text(&mut rng, len, symbols);
            for level in LEVELS {
                let frame = frame(&bytes, level);
                let ours = by_pure(&frame, len);
                assert!(ours.as_deref() == Ok(&bytes), "{len} {symbols} {level}");
                let shape = Shape::of(&frame);
                all.with_sequences += shape.with_sequences;
                all.one_stream += shape.one_stream;
                all.four_streams += shape.four_streams;
                all.treeless += shape.treeless;
            }
        }
    }
    assert!(all.with_sequences > 200, "{all:?}");
    assert!(all.one_stream > 5, "{all:?}");
    assert!(all.four_streams > 50, "{all:?}");
    assert!(all.treeless > 10, "{all:?}");
}

#[test]
fn matches_from_as_far_as_any_window() {
    // Long-distance matches of the native engine, in a frame of several MiB.
    let mut rng = Rng(22);
    let part = rng.bytes(3 << 20);
    let bytes = [&part[..], &rng.bytes(1 << 20), &part].concat();
    let mut frame = Vec::new();
    zstn::Engine::new(1)
        .expect("a thread")
        .zstd_encode(&bytes, ZstdCoding::Long(3), &mut frame);
    assert!(frame.len() < bytes.len() * 2 / 3);
    assert!(by_pure(&frame, bytes.len()).as_deref() == Ok(&bytes));
    // Rows of zeros and of one value produce matches that overlap themselves.
    let rows: Vec<u8> = (0..500_000u32)
        .map(|n| {
            if n / 3000 % 2 == 0 {
                0
            } else {
                n.to_le_bytes()[0] & 3
            }
        })
        .collect();
    for level in LEVELS {
        let frame = zstd::bulk::compress(&rows, level).expect("compressed");
        assert!(by_pure(&frame, rows.len()).as_deref() == Ok(&rows));
    }
}

#[test]
fn every_bit_and_every_cut_of_small_frames() {
    let mut rng = Rng(23);
    let mut tally = Tally::default();
    for (len, symbols) in [(60, 4), (150, 12), (400, 40), (900, 90), (3000, 25)] {
        let bytes = text(&mut rng, len, symbols);
        for level in LEVELS {
            let frame = frame(&bytes, level);
            if Shape::of(&frame).with_sequences == 0 {
                continue;
            }
            let mut damaged = frame.clone();
            for bit in 0..8 * frame.len() {
                damaged[bit / 8] ^= 1 << (bit % 8);
                tally.compare(&damaged, len);
                damaged[bit / 8] ^= 1 << (bit % 8);
            }
            // Truncate the frame inside its only block, and adjust the block's length.
            let head = header_bytes(&frame) + 3;
            for end in head..frame.len() {
                let size = u32::try_from(end - head).expect("small") << 3 | 5;
                let mut cut = frame[..end].to_vec();
                cut[head - 3..head].copy_from_slice(&size.to_le_bytes()[..3]);
                tally.compare(&cut, len);
            }
        }
    }
    assert!(tally.accepted > 1000, "{tally:?}");
    assert!(tally.refused > 1000, "{tally:?}");
}

#[test]
fn flips_and_cuts_of_large_frames() {
    let mut rng = Rng(24);
    let mut tally = Tally::default();
    let mut treeless = 0;
    for (len, symbols) in [(30_000, 50), (200_000, 30), (400_000, 12)] {
        let bytes = text(&mut rng, len, symbols);
        for level in LEVELS {
            let frame = frame(&bytes, level);
            treeless += Shape::of(&frame).treeless;
            for _ in 0..if len > 100_000 { 120 } else { 600 } {
                let mut damaged = frame.clone();
                for _ in 0..1 + rng.next_u64() % 2 {
                    let bit = usize::try_from(rng.next_u64()).expect("64 bits") % (8 * frame.len());
                    damaged[bit / 8] ^= 1 << (bit % 8);
                }
                tally.compare(&damaged, len);
            }
        }
    }
    assert!(treeless > 5, "{treeless}");
    assert!(tally.accepted > 300, "{tally:?}");
    assert!(tally.strict > 0, "{tally:?}");
}

#[test]
fn sections_of_noise() {
    // Blocks of raw literals with a random sequences section, which covers every mode
    // of the three tables, their descriptions, and the bits after them.
    let mut rng = Rng(25);
    let mut tally = Tally::default();
    for _ in 0..80_000 {
        let literals = rng.next_u64() % 20;
        let mut block = vec![literals.to_le_bytes()[0] << 3];
        block.extend(rng.bytes(usize::try_from(literals).expect("small")));
        block.push(1 + rng.bytes(1)[0] % 2);
        let mode = |rng: &mut Rng| [0, 1, 1, 1, 1, 1, 2, 3][usize::from(rng.bytes(1)[0] % 8)];
        block.push(mode(&mut rng) << 6 | mode(&mut rng) << 4 | mode(&mut rng) << 2);
        // Small codes, followed by few bits.
        let len = 3 + usize::from(rng.bytes(1)[0] % 9);
        block.extend(rng.bytes(len).iter().map(|byte| byte & byte >> 3 & 7));
        block.push(1 << (rng.bytes(1)[0] % 8));
        // The frame has no content size, and the largest window that a block can use.
        let size = u32::try_from(block.len()).expect("small") << 3 | 5;
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0x38];
        frame.extend(&size.to_le_bytes()[..3]);
        frame.extend(&block);
        match zstd::bulk::decompress(&frame, 1 << 18) {
            Ok(bytes) => tally.compare(&frame, bytes.len()),
            Err(_) => tally.compare(&frame, 3 + usize::from(rng.bytes(1)[0] % 40)),
        }
    }
    assert!(tally.accepted > 50, "{tally:?}");
    assert!(tally.refused > 10_000, "{tally:?}");
}
