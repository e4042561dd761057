//! Frames of every level with every type of match, and vectors that break a rule.

use serde::Deserialize;
use zstn_core::engine::{PackEngine, ZstdCoding};
use zstn_core::entropy;
use zstn_core::pure::Pure;
use zstn_tests::cases;
use zstn_tests::refusal::Refusal;
use zstn_tests::rng::Rng;
use zstn_tests::sha256;

use super::{LEVELS, Shape, by_c, by_pure, frame, text};

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
