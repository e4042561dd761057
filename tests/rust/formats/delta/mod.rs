//! Deltas: every vector decodes, every malformed delta and every wrong base is refused,
//! and the trailer that only deltas of this project have is checked.

mod packing;

use zstn_core::Result;
use zstn_core::container::model_delta::{Base, ModelDelta, RecordKind, pack};
use zstn_core::engine::Engine;
use zstn_core::frame::delta::Delta;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

fn restore(engine: &impl Engine, packed: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    ModelDelta::parse(packed)?.unpack(engine, &Base::parse(base)?)
}

#[test]
fn model_deltas_of_the_vectors_restore() {
    let native = zstn::Engine::new(2).unwrap();
    let mut restored = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let packed = cases::named("zstn", &case["container"]);
        let base = cases::named("zstn", &case["base"]);
        let target = cases::named("zstn", &case["target"]);
        for result in [
            restore(&native, &packed, &base),
            restore(&Pure, &packed, &base),
        ] {
            let bytes = result.unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
            assert!(bytes == target, "{}", case["name"]);
            restored += 1;
        }
    }
    assert_eq!(restored, 42);
}

#[test]
fn buffer_deltas_of_the_vectors_decode() {
    let native = zstn::Engine::new(2).unwrap();
    let mut decoded = 0;
    for case in cases::deltas("zstn", "z4delta") {
        let blob = cases::named("zstn", &case["container"]);
        let reference = cases::named("zstn", &case["reference"]);
        let delta = Delta::parse(&blob).unwrap();
        for result in [
            delta.decode(&Pure, &reference),
            delta.decode(&native, &reference),
        ] {
            let bytes = result.unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
            let current = cases::named("zstn", &case["current"]);
            assert!(bytes == current, "{}", case["name"]);
            decoded += 1;
        }
    }
    assert_eq!(decoded, 24);
}

#[test]
fn malformed_deltas_are_refused_for_their_rule() {
    let native = zstn::Engine::new(2).unwrap();
    let mut refused = 0;
    for case in cases::deltas("zstn-bad", "z4dm") {
        let base = cases::named("zstn-bad", &case["base"]);
        let packed = cases::named("zstn-bad", &case);
        for result in [
            restore(&Pure, &packed, &base),
            restore(&native, &packed, &base),
        ] {
            if case["verdict"] == "must_reject" {
                let name = text(&case["name"]);
                Refusal::of(&case).expect(&name).check(&name, result);
                refused += 1;
            }
        }
    }
    for case in cases::deltas("zstn-bad", "z4delta") {
        let blob = cases::named("zstn-bad", &case);
        let reference = cases::named("zstn-bad", &case["reference"]);
        let parsed = Delta::parse(&blob);
        for result in [
            parsed
                .clone()
                .and_then(|delta| delta.decode(&Pure, &reference)),
            parsed.and_then(|delta| delta.decode(&native, &reference)),
        ] {
            let name = text(&case["name"]);
            Refusal::of(&case).expect(&name).check(&name, result);
            refused += 1;
        }
    }
    assert_eq!(refused, 2 * (9 + 6));
}

#[test]
fn a_fine_tune_shrinks_and_comes_back() {
    let engine = zstn::Engine::new(2).unwrap();
    let mut rng = Rng(31);
    let weights = rng.bf16_weights(100_000);
    let mut tuned = weights.clone();
    for k in (0..tuned.len()).step_by(200) {
        tuned[k] ^= 1;
    }
    let frozen = rng.bf16_weights(50_000);
    // All-zero weights are smaller as a frame of their own than as a difference.
    let zeros = vec![0; frozen.len()];
    let base = checkpoint(&[
        ("w", "BF16", &weights),
        ("f", "BF16", &frozen),
        ("z", "BF16", &frozen),
    ]);
    let target = checkpoint(&[
        ("w", "BF16", &tuned),
        ("f", "BF16", &frozen),
        ("z", "BF16", &zeros),
        ("new", "U8", &[1, 2, 3]),
    ]);
    let parsed_base = Base::parse(&base).unwrap();
    let packed = pack(&engine, &target, &parsed_base, Effort::Balanced).unwrap();
    assert!(packed.len() < 12_000, "{} bytes", packed.len());
    let delta = ModelDelta::parse(&packed).unwrap();
    assert!(delta.has_trailer());
    let kinds: Vec<RecordKind> = delta.records().iter().map(|record| record.kind).collect();
    assert_eq!(
        kinds,
        [
            RecordKind::Delta,
            RecordKind::Copy,
            RecordKind::Full,
            RecordKind::Full
        ]
    );
    assert!(delta.unpack(&Pure, &parsed_base).unwrap() == target);

    // Swapping the names of two tensors leaves the bytes equal, so z4ai's digest does
    // not detect it.
    let swapped = checkpoint(&[
        ("w", "BF16", &weights),
        ("z", "BF16", &frozen),
        ("f", "BF16", &frozen),
    ]);
    let error = restore(&Pure, &packed, &swapped).unwrap_err();
    assert_eq!(
        error.rule().map(|rule| rule.code()),
        Some("delta.reference")
    );
    // A different base.
    assert!(restore(&Pure, &packed, &target).is_err());
    let records_end = usize::try_from(delta.records().last().unwrap().payload.end).unwrap();
    for len in (0..records_end)
        .step_by(13)
        .chain(records_end..packed.len())
    {
        assert!(
            restore(&Pure, &packed[..len], &base).is_err(),
            "cut at {len}"
        );
    }
}

#[test]
fn a_delta_with_a_trailer_and_a_flipped_bit_is_refused_or_restores_exactly() {
    let (base, target, packed) = small();
    let (mut refused, mut exact) = (0, 0);
    for bit in 0..packed.len() * 8 {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match restore(&Pure, &flipped, &base) {
            Err(_) => refused += 1,
            Ok(bytes) => {
                assert!(bytes == target, "bit {bit}");
                exact += 1;
            }
        }
    }
    // Some flips do not affect the restored bytes: the flags of a Z4DL, and the magic
    // and tags of the trailer.
    assert!(refused > 20 * exact, "{refused} refused, {exact} exact");
}

/// Returns a base, a target with copied, differing and new tensors, and the delta.
fn small() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut rng = Rng(5);
    let weights = rng.bf16_weights(150);
    let mut tuned = weights.clone();
    tuned[17] ^= 3;
    let base = checkpoint(&[("same", "BF16", &weights), ("tuned", "BF16", &weights)]);
    let target = checkpoint(&[
        ("tuned", "BF16", &tuned),
        ("same", "BF16", &weights),
        ("new", "U8", b"a tensor the base does not have"),
    ]);
    let engine = zstn::Engine::new(1).unwrap();
    let packed = pack(&engine, &target, &Base::parse(&base).unwrap(), Effort::Fast).unwrap();
    (base, target, packed)
}

#[test]
fn trailer_and_records_have_to_agree() {
    let (base, _, packed) = small();
    let delta = ModelDelta::parse(&packed).unwrap();
    let records_end = usize::try_from(delta.records().last().unwrap().payload.end).unwrap();
    // The first entry follows the tag and the length of the record.
    let places = packed[records_end..]
        .windows(4)
        .position(|tag| tag == b"RECS")
        .map(|at| records_end + at + 12)
        .unwrap();
    let mut longer = packed.clone();
    longer[places + 1] += 1;
    let mut other_digest = packed.clone();
    other_digest[places + 10] ^= 1;
    let mut other_header = packed.clone();
    // `[31]` is the end of a shape; the digest of the header detects the change first.
    let digit = packed.windows(4).position(|text| text == b"[31]").unwrap();
    other_header[digit + 2] = b'2';
    for (file, rule) in [
        (longer, "delta.places"),
        (other_digest, "delta.tensor"),
        (other_header, "delta.header"),
    ] {
        let error = restore(&Pure, &file, &base).unwrap_err();
        assert_eq!(error.rule().map(|rule| rule.code()), Some(rule), "{error}");
    }
}

#[test]
fn a_name_used_twice_is_refused() {
    let (base, _, packed) = small();
    let mut twice = packed.clone();
    let second = packed
        .windows(6)
        .position(|bytes| bytes == b"\x04\0same")
        .unwrap();
    let third = packed
        .windows(5)
        .position(|bytes| bytes == b"\x03\0new")
        .unwrap();
    assert!(second < third);
    twice.splice(third..third + 5, *b"\x04\0same");
    let error = restore(&Pure, &twice, &base).unwrap_err();
    assert_eq!(
        error.rule().map(|r| r.code()),
        Some("delta.record"),
        "{error}"
    );
}
