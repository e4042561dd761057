//! zstd frames that contain only literals: `Pure` returns the same bytes as C zstd, and
//! accepts no frame that C zstd refuses.

use proptest::prelude::*;
use zstn_core::engine::{PackEngine, ZstdCoding};
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;
use zstn_tests::tier;

use crate::{STRICT, by_c, by_pure};

/// Decodes `frame` with both decoders. Returns whether both accept it.
fn compare(frame: &[u8], len: usize) -> bool {
    let (ours, theirs) = (by_pure(frame, len), by_c(frame, len));
    match (&ours, &theirs) {
        (Ok(ours), Some(theirs)) => assert!(ours == theirs, "other bytes"),
        (Err(why), Some(_)) => assert!(STRICT.contains(&&**why), "{why}: {frame:02X?}"),
        (Ok(_), None) => panic!("C zstd refuses {len} bytes of {frame:02X?}"),
        (Err(_), None) => return false,
    }
    ours.is_ok()
}

/// The fields of a frame with a single block of literals.
#[derive(Clone)]
struct Parts {
    /// The declared content size in bytes.
    len: u32,
    /// The literals section and the bytes after it.
    block: Vec<u8>,
    checksum: Option<u32>,
}

impl Parts {
    /// Parses a frame from one of zstn's encoders, with 1 to 2^17 bytes in one
    /// compressed block.
    fn of(frame: &[u8]) -> Option<Self> {
        let (len, head) = match frame[4] {
            0x20 => (u32::from(frame[5]), 6),
            0x60 => (256 + u32::from(u16::from_le_bytes([frame[5], frame[6]])), 7),
            0xA0 => (u32::from_le_bytes(frame[5..9].try_into().ok()?), 9),
            other => panic!("a frame header {other:#x}"),
        };
        let is_compressed = frame[head] & 7 == 5;
        is_compressed.then(|| Self {
            len,
            block: frame[head + 3..].to_vec(),
            checksum: None,
        })
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0xA0];
        if self.checksum.is_some() {
            frame[4] |= 4;
        }
        frame.extend(self.len.to_le_bytes());
        let size = u32::try_from(self.block.len()).expect("a block");
        frame.extend(&(size << 3 | 5).to_le_bytes()[..3]);
        frame.extend(&self.block);
        frame.extend(self.checksum.iter().flat_map(|sum| sum.to_le_bytes()));
        frame
    }

    /// Returns the length of the literals header, which precedes the description of the
    /// code.
    fn head_bytes(&self) -> usize {
        [3, 3, 4, 5][usize::from(self.block[0] >> 2 & 3)]
    }
}

fn huffman(bytes: &[u8]) -> [Vec<u8>; 2] {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    Pure.zstd_encode(bytes, ZstdCoding::Huffman, &mut ours);
    zstn::Engine::new(1)
        .expect("a thread")
        .zstd_encode(bytes, ZstdCoding::Huffman, &mut theirs);
    [ours, theirs]
}

/// Returns `len` bytes with about `symbols` distinct values; smaller values are more
/// frequent.
fn skewed(rng: &mut Rng, len: usize, symbols: u64, skew: u32) -> Vec<u8> {
    let one = |rng: &mut Rng| {
        let least = (0..=skew).map(|_| rng.next_u64() % symbols).min();
        least.unwrap_or(0).to_le_bytes()[0]
    };
    (0..len).map(|_| one(rng)).collect()
}

#[test]
fn both_encoders_frames_of_all_lengths() {
    let mut rng = Rng(11);
    let lens = (1..140)
        .chain([255, 256, 511, 512, 513, 1022, 1023, 1024, 2047, 2048, 2049])
        .chain([
            5000, 16_383, 16_384, 65_536, 131_071, 131_072, 131_073, 500_000,
        ]);
    for len in lens {
        for (symbols, skew) in [(2, 0), (5, 3), (40, 4), (256, 1), (256, 9)] {
            let bytes = skewed(&mut rng, len, symbols, skew);
            for frame in huffman(&bytes) {
                assert!(
                    by_pure(&frame, len).as_deref() == Ok(&bytes),
                    "{len} {symbols}"
                );
            }
        }
    }
}

#[test]
fn every_bit_of_small_frames() {
    let mut rng = Rng(12);
    for (len, symbols, skew) in [
        (30, 3, 1),
        (70, 20, 4),
        (300, 40, 5),
        (700, 250, 3),
        (1500, 60, 6),
        (4000, 30, 8),
    ] {
        let bytes = skewed(&mut rng, len, symbols, skew);
        for frame in huffman(&bytes) {
            let Some(parts) = Parts::of(&frame) else {
                continue;
            };
            assert!(compare(&parts.frame(), len));
            for bit in 0..8 * parts.block.len() {
                let mut damaged = parts.clone();
                damaged.block[bit / 8] ^= 1 << (bit % 8);
                compare(&damaged.frame(), len);
            }
            for end in 0..parts.block.len() {
                let mut short = parts.clone();
                short.block.truncate(end);
                compare(&short.frame(), len);
            }
        }
    }
}

#[test]
fn lengths_are_those_declared() {
    let bytes = skewed(&mut Rng(13), 3000, 50, 5);
    for frame in huffman(&bytes) {
        for len in [0, 1, 2999, 3001, 6000] {
            assert!(!compare(&frame, len), "{len}");
        }
        for end in 0..frame.len() {
            assert!(!compare(&frame[..end], 3000));
        }
        assert!(!compare(&[&frame[..], &[0]].concat(), 3000));
    }
}

#[test]
fn checksums_are_compared() {
    let bytes = skewed(&mut Rng(14), 3000, 50, 5);
    let mut parts = Parts::of(&huffman(&bytes)[0]).expect("one block");
    let mut encoder = zstd::bulk::Compressor::new(-7).expect("a level");
    encoder.include_checksum(true).expect("a parameter");
    let with = encoder.compress(&bytes).expect("compressed");
    let sum = u32::from_le_bytes(with[with.len() - 4..].try_into().expect("four bytes"));
    parts.checksum = Some(sum);
    assert!(compare(&parts.frame(), 3000));
    for bit in 0..32 {
        parts.checksum = Some(sum ^ 1 << bit);
        assert!(!compare(&parts.frame(), 3000));
    }
}

#[test]
fn all_forms_of_literals_that_are_no_code() {
    // Raw and repeated literals, with all headers and in all block types.
    for len in [
        0usize, 1, 5, 31, 32, 300, 4095, 4096, 131_071, 131_072, 131_073,
    ] {
        for kind in 0..2u32 {
            for format in 0..4u32 {
                let (head_bytes, shift) = [(1, 3), (2, 4), (1, 3), (3, 4)][format as usize];
                let field = u32::try_from(len).expect("small") << shift;
                let head = (kind | format << 2 | field).to_le_bytes();
                let mut block = head[..head_bytes].to_vec();
                block.resize(head_bytes + if kind == 0 { len } else { 1 }, 9);
                for sequences in [&[0][..], &[0x80, 0], &[], &[0, 0], &[0x80], &[0x80, 0, 1]] {
                    let parts = Parts {
                        len: u32::try_from(len).expect("small"),
                        block: [&block, sequences].concat(),
                        checksum: None,
                    };
                    compare(&parts.frame(), len);
                }
            }
        }
    }
}

#[test]
fn weights_of_every_description() {
    let mut rng = Rng(15);
    let mut accepted = 0;
    for _ in 0..8_000 {
        // A direct description of random weights, which often form a valid code, and
        // streams of noise.
        let count = 1 + rng.next_u64() % 20;
        let most = 1 + rng.next_u64() % 13;
        let weights: Vec<u8> = (0..count.next_multiple_of(2))
            .map(|_| (rng.next_u64() % (most + 1)).to_le_bytes()[0])
            .collect();
        let mut body = vec![127 + count.to_le_bytes()[0]];
        body.extend(weights.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
        let stream = 1 + usize::from(rng.bytes(1)[0] % 6);
        body.extend(rng.bytes(stream));
        accepted += u32::from(any_len(&body));
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn compressed_weights_of_noise() {
    let mut rng = Rng(16);
    let mut accepted = 0;
    for _ in 0..tier::count(6_000, 30_000) {
        let len = 2 + rng.bytes(1)[0] % 14;
        let mut body = vec![len];
        body.extend(rng.bytes(len.into()));
        // Tables of up to 64 states with a few rare values.
        body[1] &= 0xF1;
        body.extend(rng.bytes(2));
        accepted += u32::from(any_len(&body));
    }
    assert!(accepted > 0, "{accepted}");
}

/// Compares the decoders on one stream, for every number of literals that it may
/// contain. Returns whether any is accepted.
fn any_len(body: &[u8]) -> bool {
    let mut any = false;
    for len in 0..24u32 {
        let size = u32::try_from(body.len()).expect("small");
        let mut block = (2 | len << 4 | size << 14).to_le_bytes()[..3].to_vec();
        block.extend(body);
        block.push(0);
        let parts = Parts {
            len,
            block,
            checksum: None,
        };
        any |= compare(&parts.frame(), len as usize);
    }
    any
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damage(
        len in prop_oneof![3 => 20usize..3000, 1 => 3000usize..60_000],
        symbols in 2u64..=256,
        skew in 0u32..12,
        seed in any::<u64>(),
        edits in proptest::collection::vec((any::<u32>(), any::<u8>(), 0u8..3), 1..4),
        swap in any::<bool>(),
    ) {
        let mut rng = Rng(seed | 1);
        let bytes = skewed(&mut rng, len, symbols, skew);
        for frame in huffman(&bytes) {
            let Some(mut parts) = Parts::of(&frame) else { continue };
            for &(at, value, what) in &edits {
                let least = if what == 0 { parts.head_bytes() } else { 0 };
                let most = if what == 1 { 40 } else { usize::MAX };
                let span = (parts.block.len() - 1).min(most).max(least + 1) - least;
                let at = least + at as usize % span;
                parts.block[at] = if swap { parts.block[at] ^ 1 << (value % 8) } else { value };
            }
            compare(&parts.frame(), len);
        }
    }
}
