//! Both decoders agree on damaged frames and on noise.

use zstn_tests::rng::Rng;

use super::{LEVELS, Shape, Tally, frame, header_bytes, text};

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
