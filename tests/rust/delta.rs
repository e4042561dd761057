//! Deltas: every vector decodes, every malformed one and every wrong base is
//! refused, and ours are never larger than they have to be.

use serde_json::Value;
use zstn::Native;
use zstn_core::container::model_delta::{Base, Content, ModelDelta, pack};
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, Pure};
use zstn_core::frame::delta::{self, Delta};
use zstn_core::frame::select::Effort;
use zstn_core::{ErrorKind, Result};
use zstn_tests::cases;
use zstn_tests::rng::Rng;

fn manifest(folder: &str, kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_slice(&cases::read(folder, "manifest.json")).unwrap();
    let all = all["cases"].as_array().unwrap().clone();
    all.into_iter()
        .filter(|case| case["type"] == kind)
        .collect()
}

fn file(folder: &str, value: &Value) -> Vec<u8> {
    cases::read(folder, value["file"].as_str().expect("a file name"))
}

fn restore(engine: &impl Engine, packed: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    ModelDelta::parse(packed)?.unpack(engine, &Base::parse(base)?)
}

#[test]
fn model_deltas_of_the_vectors_restore() {
    let native = Native::new(2).unwrap();
    let mut restored = 0;
    for case in manifest("zstn", "z4dm") {
        let packed = file("zstn", &case["container"]);
        let base = file("zstn", &case["base"]);
        let target = file("zstn", &case["target"]);
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
    let mut decoded = 0;
    for case in manifest("zstn", "z4delta") {
        let blob = file("zstn", &case["container"]);
        let reference = file("zstn", &case["reference"]);
        let bytes = Delta::parse(&blob)
            .and_then(|delta| delta.decode(&Pure, &reference))
            .unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        assert!(bytes == file("zstn", &case["current"]), "{}", case["name"]);
        decoded += 1;
    }
    assert_eq!(decoded, 12);
}

#[test]
fn malformed_deltas_are_refused() {
    for case in manifest("zstn-bad", "z4dm") {
        let base = file("zstn-bad", &case["base"]);
        let result = restore(&Pure, &file("zstn-bad", &case), &base);
        if case["verdict"] == "must_reject" {
            let error = result.expect_err(case["name"].as_str().unwrap());
            assert_eq!(
                error.kind(),
                ErrorKind::Malformed,
                "{}: {error}",
                case["name"]
            );
        }
    }
    for case in manifest("zstn-bad", "z4delta") {
        let blob = file("zstn-bad", &case);
        let reference = file("zstn-bad", &case["reference"]);
        let error = Delta::parse(&blob)
            .and_then(|delta| delta.decode(&Pure, &reference))
            .expect_err(case["name"].as_str().unwrap());
        assert_eq!(
            error.kind(),
            ErrorKind::Malformed,
            "{}: {error}",
            case["name"]
        );
    }
}

fn checkpoint(tensors: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut entries = Vec::new();
    for (name, dtype, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let width = if *dtype == "U8" { 1 } else { 2 };
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{start},{}]}}",
            bytes.len() / width,
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

#[test]
fn a_fine_tune_shrinks_and_comes_back() {
    let engine = Native::new(2).unwrap();
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
    assert!(delta.is_sealed());
    let kinds: Vec<&str> = delta
        .records()
        .iter()
        .map(|record| match record.content {
            Content::Full(_) => "full",
            Content::Delta(_) => "delta",
            Content::Copy => "copy",
        })
        .collect();
    assert_eq!(kinds, ["delta", "copy", "full", "full"]);
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
    for len in (0..packed.len()).rev().step_by(13) {
        if let Ok(bytes) = restore(&Pure, &packed[..len], &base) {
            // Only the seal can be missing without loss.
            assert!(bytes == target && len >= packed.len() - 104, "cut at {len}");
        }
    }
}

#[test]
fn holes_are_refused_instead_of_lost() {
    let engine = Native::new(1).unwrap();
    let base = checkpoint(&[("a", "U8", &[1, 2, 3, 4])]);
    let mut target = base.clone();
    target.extend_from_slice(b"trailing");
    let error = pack(&engine, &target, &Base::parse(&base).unwrap(), Effort::Fast).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let other_length = delta::encode(&engine, &[1, 2], &[1], Some(Dtype::U8), Effort::Fast);
    assert_eq!(other_length.unwrap_err().kind(), ErrorKind::InvalidInput);
}
