//! The functions that z4ai also offers: packing buffers and checkpoints in memory, and
//! the properties of a reader.

use zstn::{Effort, Engine, Job, PackOptions, Reader, model_delta};
use zstn_core::dtype::Dtype;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

fn native() -> Engine {
    Engine::new(2).unwrap()
}

fn rule(error: &zstn::Error) -> Option<Rule> {
    match error {
        zstn::Error::Format { source, .. } => source.rule(),
        _ => None,
    }
}

#[test]
fn a_buffer_and_back() {
    let engine = native();
    let weights = Rng(1).bf16_weights(20_000);
    for effort in [Effort::Fast, Effort::Balanced, Effort::Max] {
        for dtype in [None, Some(Dtype::Bf16), Some(Dtype::F64)] {
            let frame = zstn::compress(&engine, &weights, dtype, effort);
            assert!(frame.len() < weights.len(), "{dtype:?} {effort:?}");
            assert!(zstn::decompress(&engine, &frame).unwrap() == weights);
            let cut = zstn::decompress(&engine, &frame[..frame.len() - 1]).unwrap_err();
            assert_eq!(rule(&cut), Some(Rule::Truncated), "{cut}");
        }
    }
    let nothing = zstn::compress(&engine, &[], None, Effort::Balanced);
    assert!(zstn::decompress(&engine, &nothing).unwrap().is_empty());
}

#[test]
fn a_difference_and_back() {
    let engine = native();
    let old = Rng(2).bf16_weights(20_000);
    let mut new = old.clone();
    new[700] ^= 3;
    let dtype = Some(Dtype::Bf16);
    let delta = zstn::compress_delta(&engine, &new, &old, dtype, Effort::Balanced).unwrap();
    assert!(delta.len() < 200, "{} bytes for one changed", delta.len());
    assert!(zstn::decompress_delta(&engine, &delta, &old).unwrap() == new);
    let wrong = zstn::decompress_delta(&engine, &delta, &new).unwrap_err();
    assert_eq!(rule(&wrong), Some(Rule::DeltaReference), "{wrong}");
    let short = zstn::compress_delta(&engine, &new[2..], &old, dtype, Effort::Balanced);
    let zstn::Error::Format { source, .. } = short.unwrap_err() else {
        panic!("another kind of error");
    };
    assert_eq!(source.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_checkpoint_against_its_base_and_back() {
    let engine = native();
    let mut rng = Rng(3);
    let (a, b) = (rng.bf16_weights(5000), rng.bf16_weights(700));
    let base = checkpoint(&[("a", "BF16", &a), ("b", "BF16", &b)]);
    let mut changed = b.clone();
    changed[100] ^= 1;
    let target = checkpoint(&[("a", "BF16", &a), ("b", "BF16", &changed)]);
    let delta = model_delta::compress(&engine, &target, &base, Effort::Balanced).unwrap();
    assert!(delta.len() < 1000, "{}", delta.len());
    assert!(model_delta::decompress(&engine, &delta, &base).unwrap() == target);
    let wrong = model_delta::decompress(&engine, &delta, &target).unwrap_err();
    assert_eq!(rule(&wrong), Some(Rule::DeltaReference), "{wrong}");
}

#[test]
fn a_reader_tells_names_header_metadata_and_frames() {
    let folder = tempfile::tempdir().unwrap();
    let weights = Rng(4).bf16_weights(5000);
    let file = checkpoint(&[("w", "BF16", &weights), ("ids", "I32", &[1, 0, 0, 0])]);
    let (plain, packed) = (
        folder.path().join("m.safetensors"),
        folder.path().join("m.zstn"),
    );
    std::fs::write(&plain, file).unwrap();
    zstn::pack(
        &Job::new().engine(&native()),
        &plain,
        &packed,
        &PackOptions::default(),
    )
    .unwrap();
    let reader = Reader::open(&packed).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["w", "ids"]);
    assert_eq!(reader.tensors()[1].dtype, Dtype::I32);
    assert_eq!(reader.tensors()[0].shape, [5000]);
    assert!(reader.metadata().is_empty());
    assert!(reader.read("w").unwrap().bytes == weights);
    assert_eq!(reader.read("ids").unwrap().bytes, [1, 0, 0, 0]);
    let stored = reader.find("w").unwrap().stored_len_bytes();
    assert!(stored > 5000 && stored < 10_000, "{stored}");
    for missing in [reader.find("v").err(), reader.read("v").err()] {
        let zstn::Error::Format { source, .. } = missing.unwrap() else {
            panic!("another kind of error");
        };
        assert_eq!(source.kind(), ErrorKind::NotFound);
    }
}
