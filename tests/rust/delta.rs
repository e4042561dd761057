//! Deltas: every vector decodes, every malformed one and every wrong base is
//! refused, and ours are never larger than they have to be.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zstn_core::TensorRef;

use zstn::{PackOptions, Progress, Storage, UnpackOptions, VerifyOptions};
use zstn_core::container::model_delta::{Base, Kind, ModelDelta, pack};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::frame::delta::{self, Delta};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result};
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoint;
use zstn_tests::refusal::Refusal;
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
    assert_eq!(restored, 44);
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
    assert_eq!(refused, 2 * (8 + 6));
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
    // For all-zero weights a frame of their own beats any difference.
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
    let kinds: Vec<Kind> = delta.records().iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::Delta, Kind::Copy, Kind::Full, Kind::Full]);
    assert!(delta.unpack(&Pure, &parsed_base).unwrap() == target);

    // The same bytes under exchanged names: z4ai's digest does not notice.
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
    // Another base altogether.
    assert!(restore(&Pure, &packed, &target).is_err());
    let records_end = delta.records().last().unwrap().payload.end;
    for len in (0..packed.len()).rev().step_by(13) {
        if let Ok(bytes) = restore(&Pure, &packed[..len], &base) {
            // Only the trailer can be missing without loss.
            assert!(bytes == target && len as u64 >= records_end, "cut at {len}");
        }
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
    // Flags of a Z4DL and the trailer's own magic and tags say nothing about
    // the bytes.
    assert!(refused > 20 * exact, "{refused} refused, {exact} exact");
}

/// A base, a target with tensors of all three kinds, and the delta.
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
    // The first place in the trailer follows the tag and the length of its field.
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
    // `[31]` at the end of a shape: the digest of the header notices first.
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

/// A folder with `base` and `target`, mapped.
fn on_disk(base: &[u8], target: &[u8]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let paths = (write("base", base), write("target", target));
    (folder, paths.0, paths.1)
}

#[test]
fn files_are_the_same_whatever_the_memory_and_come_back() {
    let mut rng = Rng(77);
    // The second tensor alone is more than a batch of 64 MiB / 6.
    let tensors: Vec<Vec<u8>> = [1, 11, 1, 2, 1]
        .map(|mebibytes| rng.bf16_weights(32 << 10).repeat(mebibytes << 4))
        .into();
    let mut tuned = tensors.clone();
    for tensor in &mut tuned[..3] {
        for k in (0..tensor.len()).step_by(300) {
            tensor[k] ^= 1;
        }
    }
    let named = |all: &[Vec<u8>]| {
        let names = ["a", "b", "c", "d", "e"];
        let list: Vec<_> = names
            .iter()
            .zip(all)
            .map(|(n, t)| (*n, "BF16", &t[..]))
            .collect();
        checkpoint(&list)
    };
    let (base, target) = (named(&tensors), named(&tuned));
    let (folder, base_path, target_path) = on_disk(&base, &target);
    let reference = pack(
        &zstn::Engine::new(1).unwrap(),
        &target,
        &Base::parse(&base).unwrap(),
        Effort::Fast,
    )
    .unwrap();
    for (threads, memory_bytes) in [(1, 64 << 20), (2, 1 << 30)] {
        let engine = zstn::Engine::new(threads).unwrap();
        let path = folder.path().join("tuned.z4dm");
        let seen = Seen::default();
        let options = PackOptions::default()
            .memory_bytes(memory_bytes)
            .progress(&seen)
            .effort(Effort::Fast)
            .base(&base_path);
        let report = zstn::pack(&engine, &target_path, &path, &options).unwrap();
        let Storage::Delta {
            copied, differing, ..
        } = report.files[0].storage
        else {
            panic!("{report:?}");
        };
        assert_eq!((copied, differing, report.tensors()), (2, 3, 5));
        seen.assert_complete(16 << 20);
        let packed = std::fs::read(&path).unwrap();
        assert_eq!(report.packed_bytes(), packed.len() as u64);
        assert!(
            packed == reference,
            "{threads} threads, {memory_bytes} bytes"
        );

        let back = folder.path().join("back");
        let seen = Seen::default();
        let options = UnpackOptions::default().base(&base_path).progress(&seen);
        zstn::unpack(&engine, &path, &back, &options).unwrap();
        seen.assert_complete(16 << 20);
        assert!(std::fs::read(&back).unwrap() == target);
        let options = VerifyOptions::default().base(&base_path);
        let report = zstn::verify(&engine, &path, &options.clone().original(&target_path));
        let report = report.unwrap();
        assert!(report.compared && report.frames() == 5);
        let error = zstn::verify(&engine, &path, &options.original(&base_path)).unwrap_err();
        assert!(matches!(error, zstn::Error::Differs { .. }), "{error}");
    }
}

/// Progress as it was told.
#[derive(Default)]
struct Seen {
    expected: AtomicU64,
    done: AtomicU64,
}

impl Seen {
    fn assert_complete(&self, len_bytes: u64) {
        assert_eq!(self.expected.load(Relaxed), len_bytes);
        assert_eq!(self.done.load(Relaxed), len_bytes);
    }
}

impl Progress for Seen {
    fn begin(&self, len_bytes: u64) {
        self.expected.fetch_add(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        self.done.fetch_add(len_bytes, Relaxed);
    }
}

#[test]
fn vectors_unpack_from_file_to_file() {
    let engine = zstn::Engine::new(2).unwrap();
    for case in cases::deltas("zstn", "z4dm") {
        let target = cases::named("zstn", &case["target"]);
        let (folder, base, packed) = on_disk(
            &cases::named("zstn", &case["base"]),
            &cases::named("zstn", &case["container"]),
        );
        let back = folder.path().join("back");
        let options = UnpackOptions::default().base(&base);
        zstn::unpack(&engine, &packed, &back, &options)
            .unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        assert!(std::fs::read(&back).unwrap() == target, "{}", case["name"]);
        zstn::verify(&engine, &packed, &VerifyOptions::default().base(&base)).unwrap();
    }
}

#[test]
fn a_bad_delta_leaves_no_file() {
    let engine = zstn::Engine::new(2).unwrap();
    let refuse = |base: &[u8], packed: &[u8], what: &str| {
        let (folder, base, packed) = on_disk(base, packed);
        let back = folder.path().join("back");
        let options = UnpackOptions::default().base(&base);
        let error = zstn::unpack(&engine, &packed, &back, &options).expect_err(what);
        assert!(!back.exists(), "{what}");
        assert!(
            zstn::verify(&engine, &packed, &VerifyOptions::default().base(&base)).is_err(),
            "{what}"
        );
        error
            .refusal()
            .and_then(|refusal| refusal.rule())
            .map(|rule| rule.code())
    };
    for case in cases::deltas("zstn-bad", "z4dm") {
        if case["verdict"] == "must_reject" {
            let base = cases::named("zstn-bad", &case["base"]);
            let packed = cases::named("zstn-bad", &case);
            let rule = refuse(&base, &packed, case["name"].as_str().unwrap());
            assert_eq!(rule, case["rule"].as_str(), "{}", case["name"]);
        }
    }
    // Overlapping tensors that say different things about the same bytes.
    let case = cases::deltas("zstn", "z4dm")
        .into_iter()
        .find(|case| case["name"] == "md_target_overlap")
        .unwrap();
    let base = cases::named("zstn", &case["base"]);
    let packed = cases::named("zstn", &case["container"]);
    let delta = ModelDelta::parse(&packed).unwrap();
    assert!(delta.overlapping().len() >= 2);
    // Turns round the last byte of a payload, which is stored data.
    let number = delta.overlapping()[0];
    let end = usize::try_from(delta.records()[number].payload.end).unwrap();
    let mut other = packed.clone();
    other[end - 1] ^= 0x40;
    assert_eq!(refuse(&base, &other, "overlap"), Some("delta.coverage"));
}

#[test]
fn holes_are_refused_instead_of_lost() {
    let engine = zstn::Engine::new(1).unwrap();
    let base = checkpoint(&[("a", "U8", &[1, 2, 3, 4])]);
    let mut target = base.clone();
    target.extend_from_slice(b"trailing");
    let error = pack(&engine, &target, &Base::parse(&base).unwrap(), Effort::Fast).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let other_length = delta::encode(
        &engine,
        TensorRef::flat(&[1, 2], Some(Dtype::U8)),
        &[1],
        Effort::Fast.into(),
    );
    assert_eq!(other_length.unwrap_err().kind(), ErrorKind::InvalidInput);
}
