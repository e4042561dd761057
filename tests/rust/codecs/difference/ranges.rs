//! Decodes ranges of a tensor from the head of its frame, some blocks, and the
//! corresponding range of the base.

use zstn_core::bytes::part;
use zstn_core::dtype::Dtype;
use zstn_core::frame::difference::{Difference, Directory, FIXED_BYTES, head_len_bytes};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::difference_frame::DifferenceFrame;
use zstn_tests::rng::Rng;

use super::{DTYPES, frame, trained};

/// Returns a frame of three blocks: two of 4096 elements, and a shorter one.
fn small_blocks(base: &[u8], current: &[u8]) -> Vec<u8> {
    let count = base.len() / 2;
    let fields = DifferenceFrame {
        dtype: 0,
        states: 16,
        group: 100,
        block: 4096,
        contexts: [0, 95],
        codes: vec![86; count.div_ceil(100)],
        means: None,
        codings: vec![(0, 1); 96],
        low_rank: None,
    };
    fields.encode(base, current)
}

#[test]
fn any_range_comes_from_its_blocks() {
    let mut rng = Rng(1);
    let (base, current) = trained(&mut rng, Dtype::Bf16, 9001, 1e-2);
    let frame = small_blocks(&base, &current);
    let head_len = head_len_bytes(&frame[..48]).expect("a head");
    assert!(head_len > FIXED_BYTES);
    let head = part(&frame, 0..head_len);
    let directory = Directory::parse(head, current.len() as u64).expect("a head");
    assert_eq!(directory.len_bytes(), current.len() as u64);
    let edges = [0, 1, 2, 8191, 8192, 8193, 16383, 16384, 16385, 18001, 18002];
    for &start in &edges {
        for &end in edges.iter().filter(|end| **end >= start) {
            let plan = directory.plan(start..end);
            let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
            let bytes = directory
                .decode(&Pure, &plan, stored, held)
                .expect("decodes");
            assert!(bytes == part(&current, start..end), "{start}..{end}");
            if start < end {
                let blocks = (end - 1) / 8192 - start / 8192 + 1;
                assert!(held.len() as u64 <= blocks * 8192);
                assert!(plan.base().end <= end + 1);
            }
        }
    }
    let plan = directory.plan(8192..8194);
    let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
    assert!(stored.len() < frame.len() / 2, "one of three blocks");
    assert_eq!(held.len(), 2, "one element of the base");
    let error = directory
        .decode(&Pure, &plan, &stored[1..], held)
        .expect_err("other bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let mut damaged = stored.to_vec();
    damaged[70] ^= 1;
    let error = directory
        .decode(&Pure, &plan, &damaged, held)
        .expect_err("damage");
    assert_eq!(error.rule(), Some(Rule::DifferenceBlockChecksum), "{error}");
    assert_eq!(error.offset(), Some(plan.stored().start));
}

#[test]
fn frames_of_the_encoder_have_ranges() {
    for dtype in DTYPES {
        let (base, current) = trained(&mut Rng(2), dtype, 140_000, 1e-3);
        let frame = frame(&Pure, dtype, &[1400, 100], &base, &current);
        let len_bytes = current.len() as u64;
        let difference = Difference::parse(&frame).expect("a frame");
        let head = part(&frame, 0..difference.head_len_bytes());
        let directory = Directory::parse(head, len_bytes).expect("a head");
        let width = len_bytes / 140_000;
        for rows in [0..1, 1310..1311, 1309..1400, 1399..1400] {
            let span = rows.start * 100 * width..rows.end * 100 * width;
            let plan = directory.plan(span.clone());
            let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
            let bytes = directory
                .decode(&Pure, &plan, stored, held)
                .expect("decodes");
            assert!(bytes == part(&current, span), "{dtype} {rows:?}");
        }
        let error = Directory::parse(head, len_bytes + width).expect_err("another tensor");
        assert_eq!(error.rule(), Some(Rule::DeltaReference));
    }
}
