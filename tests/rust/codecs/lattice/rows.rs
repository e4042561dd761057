//! Reads rows of tensors from ranges of their frames.

use std::ops::Range;

use zstn_core::Rule;
use zstn_core::container::zstn::rows::LatticeTable;
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;

use super::{Grid, coded, made, native};

/// Returns a 1024×1024 tensor with exceptions, and its frame in blocks.
fn large(grid: Grid, dtype: Dtype) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = made(grid, dtype, [1024, 1024, 1, 128], 11);
    for at in [70_000, 1_000_000] {
        bytes[at..at + 4].copy_from_slice(&[0x01, 0x7e, 0xc1, 0x7f]);
    }
    let frame = coded(&bytes, dtype, &[1024, 1024]).expect("a lattice");
    (bytes, frame)
}

fn parts<'f>(frame: &'f [u8], ranges: &[Range<u64>]) -> Vec<&'f [u8]> {
    let part = |range: &Range<u64>| &frame[range.start as usize..range.end as usize];
    ranges.iter().map(part).collect()
}

#[test]
fn spans_are_decoded_from_the_planned_ranges() {
    for (grid, dtype) in [
        (Grid::Integers(7), Dtype::Bf16),
        (Grid::Offset(15), Dtype::F16),
        (Grid::F16, Dtype::F32),
    ] {
        let (bytes, frame) = large(grid, dtype);
        let table = LatticeTable::of(&frame).unwrap_or_else(|| panic!("no blocks: {dtype}"));
        let len = bytes.len() as u64;
        let reread = LatticeTable::parse(&table.to_bytes(), frame.len() as u64, len);
        assert_eq!(reread.expect("its own bytes"), table);
        table.check(&frame).expect("the same frame");
        for span in [
            0..len,
            0..0,
            5..9,
            69_990..70_017,
            len - 2049..len,
            2048..4096 * 30,
        ] {
            let plan = table.plan(span.clone());
            let apart = plan
                .ranges()
                .windows(2)
                .all(|pair| pair[0].end < pair[1].start);
            assert!(apart, "{:?}", plan.ranges());
            let fetched = parts(&frame, plan.ranges());
            let truth = &bytes[span.start as usize..span.end as usize];
            assert!(
                plan.decode(&Pure, &fetched).expect("decodes") == truth,
                "{span:?}"
            );
            assert!(
                plan.decode(&native(), &fetched).expect("decodes") == truth,
                "{span:?}"
            );
        }
        let fetched: u64 = table
            .plan(4096..8192)
            .ranges()
            .iter()
            .map(|r| r.end - r.start)
            .sum();
        assert!(
            fetched < frame.len() as u64 * 4 / 5,
            "{fetched} of {}",
            frame.len()
        );
    }
}

#[test]
fn damage_is_noticed() {
    let (bytes, frame) = large(Grid::Integers(7), Dtype::Bf16);
    let table = LatticeTable::of(&frame).expect("blocks");
    let (frame_len, len) = (frame.len() as u64, bytes.len() as u64);
    let written = table.to_bytes();
    for cut in 0..written.len() {
        assert!(
            LatticeTable::parse(&written[..cut], frame_len, len).is_err(),
            "{cut}"
        );
    }
    for at in 0..written.len() {
        let mut other = written.clone();
        other[at] ^= 1 << (at % 8);
        assert!(LatticeTable::parse(&other, frame_len, len).is_err(), "{at}");
    }
    assert!(LatticeTable::parse(&written, frame_len, len + 2).is_err());
    assert!(LatticeTable::parse(&written, frame_len - 1, len).is_err());
    let plan = table.plan(0..4096);
    for at in (0..frame.len()).step_by(997).chain([frame.len() - 1]) {
        let mut other = frame.clone();
        other[at] ^= 0x40;
        let planned = plan
            .ranges()
            .iter()
            .any(|range| range.contains(&(at as u64)));
        let decoded = plan.decode(&Pure, &parts(&other, plan.ranges()));
        match decoded {
            Ok(decoded) => assert!(!planned && decoded == bytes[..4096], "{at}"),
            Err(error) => {
                assert!(planned, "{at}: {error}");
                assert_eq!(error.rule(), Some(Rule::ZstnBlockChecksum), "{at}: {error}");
            }
        }
    }
    let mut other = frame.clone();
    *other.last_mut().expect("bytes") ^= 1;
    let error = table.check(&other).expect_err("damaged");
    assert_eq!(error.rule(), Some(Rule::ZstnBlockChecksum));
    other = frame.clone();
    other[9] ^= 1;
    assert!(table.check(&other).is_err());
}
