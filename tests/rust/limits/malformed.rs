//! Malformed frames, containers and integrity sections, and headers with very many
//! dimensions or very many tensors.

use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::decompress;
use zstn_core::frame::select::{self, Effort};
use zstn_core::model::ModelBuilder;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result};
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::checkpoints::{assert_dimensions_refused, open, with_dimensions};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, sha256, with_header};

const MOST_BYTES: usize = 64 << 20;

#[test]
fn malformed_vectors_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    let native = zstn::Engine::new(2).expect("two threads");
    bad_frames(&native);
    bad_frames(&Pure);
    bad_containers(&native);
    bad_containers(&Pure);
    bad_sections();
}

/// Returns files whose integrity sections state more bytes than exist.
fn bad_sections() {
    let packed = small_container();
    let (front, footer) = packed.split_at(packed.len() - 20);
    let records = |tag: &[u8; 4], len: u64| {
        let payload = [&[1, 0][..], tag, &len.to_le_bytes()].concat();
        let sum = checksum([payload.as_slice()]).to_le_bytes();
        [payload, sum.to_vec(), 22u64.to_le_bytes().to_vec()].concat()
    };
    for len in [9, 1 << 20, 1 << 40, u64::MAX - 8, u64::MAX] {
        let mut sections = vec![len.to_le_bytes().to_vec()];
        for tag in [b"FILE", b"HEAD", b"FRMS", b"TENS", b"MORE"] {
            sections.push(records(tag, len));
        }
        for section in sections {
            let file = [front, &section, b"ZSTNINTG", footer].concat();
            let (result, peak) = peak_bytes(|| unpack(&Pure, &file));
            let error = result.expect_err("longer than the file");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{len}: {error}");
            let opened = FileOpener::new(file.len() as u64, file);
            let opened = opened.and_then(|opening| opening.finish(&Pure));
            assert_eq!(opened.expect_err("the same").rule(), error.rule());
            assert!(peak < 1 << 20, "{len} held {peak} bytes");
        }
    }
}

fn bad_frames(engine: &impl Engine) {
    for (name, case) in cases::bad_frames() {
        let frame = cases::read("z4ai-bad", &format!("{name}.z4ai"));
        let limit = case.needs_output_limit.unwrap_or(1 << 40);
        let (result, peak) = peak_bytes(|| decompress(engine, &frame, limit));
        case.refusal.check(&name, result);
        assert!(peak < MOST_BYTES, "{name} held {peak} bytes");
    }
}

fn bad_containers(engine: &impl Engine) {
    for case in cases::bad_containers() {
        let file = cases::read("zstn-bad", &case.file);
        let name = &case.name;
        let (result, peak) = peak_bytes(|| unpack(engine, &file));
        assert!(peak < MOST_BYTES, "{name} held {peak} bytes");
        match (case.verdict.as_str(), result) {
            ("must_reject", result) => {
                case.unpacked.check(name, result);
            }
            // Other readers may refuse these files; zstn restores them.
            ("may_accept", result) => {
                let bytes = result.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(bytes.len() as u64, case.original.bytes, "{name}");
                assert_eq!(sha256(&bytes), case.original.sha256, "{name}");
            }
            ("undetectable", Ok(_)) => {}
            (verdict, result) => panic!("{name}, {verdict}: {:?}", result.err()),
        }
        let opened = case.opened.as_ref();
        let is_refused = opened.is_some() || case.verdict == "must_reject";
        let (result, peak) = peak_bytes(|| read_all(engine, file));
        assert!(peak < MOST_BYTES, "{name} held {peak} bytes");
        if is_refused {
            opened.unwrap_or(&case.unpacked).check(name, result);
        }
    }
}

/// Reads every tensor by name.
fn read_all(engine: &impl Engine, file: Vec<u8>) -> Result<()> {
    let opening = FileOpener::new(file.len() as u64, file.clone())?;
    let catalog = opening.finish(engine)?;
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        catalog.decode(engine, number, part(&file, tensor.stored.clone()))?;
    }
    Ok(())
}

fn small_container() -> Vec<u8> {
    let mut rng = Rng(5);
    let weights = rng.bf16_weights(600);
    let header = r#"{"a":{"dtype":"BF16","shape":[300],"data_offsets":[0,600]},"b":{"dtype":"F32","shape":[150],"data_offsets":[600,1200]},"c":{"dtype":"U8","shape":[0],"data_offsets":[1200,1200]}}"#;
    let file = with_header(header, weights);
    pack(
        &zstn::Engine::new(1).expect("a thread"),
        &file,
        Effort::Balanced,
    )
    .expect("packs")
}

#[test]
fn every_truncation_is_refused() {
    let _alone = alone();
    let packed = small_container();
    for len in 0..packed.len() {
        let error = unpack(&Pure, &packed[..len]).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
    }
    let frame = frame();
    for len in 0..frame.len() {
        let error = decompress(&Pure, &frame[..len], 1 << 20).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
    }
}

fn frame() -> Vec<u8> {
    let weights = Rng(6).bf16_weights(700);
    let engine = zstn::Engine::new(1).expect("a thread");
    select::encode(
        &engine,
        zstn_core::TensorRef::flat(&weights, Some(zstn_core::dtype::Dtype::Bf16)),
        Effort::Max,
    )
}

#[test]
fn every_bit_flip_of_a_frame_is_refused_or_keeps_the_length() {
    let _alone = alone();
    let native = zstn::Engine::new(1).expect("a thread");
    let frame = frame();
    let truth = decompress(&Pure, &frame, 1 << 20).expect("good");
    for_every_flip(&frame, |flipped, bit| {
        for result in [
            decompress(&Pure, flipped, 1 << 20),
            decompress(&native, flipped, 1 << 20),
        ]
        .into_iter()
        .flatten()
        {
            // Frames have no checksum, so the bytes of a plane, or its position in the
            // description, can change undetected.
            assert!(
                result.len() <= truth.len() + 1,
                "bit {bit} made {} bytes of {}",
                result.len(),
                truth.len()
            );
        }
    });
}

fn for_every_flip(bytes: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, bit);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn headers_cost_memory_in_proportion() {
    let _alone = alone();
    // Each dimension takes two bytes in the header, but would take eight bytes once
    // parsed.
    let file = with_dimensions(2_000_000);
    let len = file.len();
    let (result, peak) = peak_bytes(|| open(file));
    assert_dimensions_refused(&result.expect_err("over the limit"));
    assert!(peak < 3 * len / 2, "{peak} bytes for a header of {len}");

    let entry = |n: usize| format!(r#""{n:07}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let tensors = 50_000;
    let entries: Vec<String> = (0..tensors).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let file = with_header(&header, b"");
    drop((header, entries));
    let (model, peak) = peak_bytes(|| {
        let catalog = open(file)?;
        ModelBuilder::new(vec![catalog], None, None)?.finish(&Pure)
    });
    assert_eq!(model.expect("a model").tensors().len(), tensors);
    assert!(peak < 600 * tensors, "{} bytes a tensor", peak / tensors);
}
