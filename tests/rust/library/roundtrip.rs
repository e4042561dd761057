//! Round trips in memory: arbitrary bytes with any dtype, effort, engine and number of
//! threads, and the functions that z4ai also offers.

use proptest::prelude::*;
use zstn::{Engine, Job, PackOptions, Reader, Storage, UnpackOptions, model_delta};
use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
use zstn_core::container::zstn::{
    ContainerOptions, IncrementalPacker, pack, pack_into, unpack, unpack_into,
};
use zstn_core::dtype::Dtype;
use zstn_core::engine::ZstdCoding;
use zstn_core::frame::select::{self, Effort};
use zstn_core::frame::z4ai::{self, BlockCodecs, Codec, PlaneRecipe, Recipe, Transform};
use zstn_core::frame::{Family, decompress};
use zstn_core::pure::Pure;
use zstn_core::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};
use zstn_core::{ErrorKind, Rule, TensorRef};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, native, tier};

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];

/// Generates noise, weights, few distinct values, runs, or zeros.
fn data() -> impl Strategy<Value = Vec<u8>> {
    (any::<u64>(), 0usize..40_000, 0..5).prop_map(|(seed, len, kind)| {
        let mut rng = Rng(seed);
        let mut bytes = match kind {
            0 => rng.bytes(len),
            1 => rng.bf16_weights(len / 2 + 1),
            2 => rng.bytes(len).iter().map(|b| b % 3).collect(),
            3 => vec![rng.bytes(1)[0]; len],
            _ => rng.bytes(97).repeat(len / 97 + 1),
        };
        bytes.truncate(len);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_of_any_bytes(bytes in data(), dtype in 0usize..23, effort in 0usize..3) {
        let engine = Engine::new(2).unwrap();
        let dtype = Dtype::ALL.get(dtype).copied();
        let frame = select::encode(&engine, TensorRef::flat(&bytes, dtype), EFFORTS[effort]);
        prop_assert!(frame.len() <= bytes.len() + 33, "{} grew to {}", bytes.len(), frame.len());
        prop_assert_eq!(&decompress(&Pure, &frame, 1 << 30).unwrap(), &bytes);
        prop_assert_eq!(&decompress(&engine, &frame, 1 << 30).unwrap(), &bytes);
    }

    #[test]
    fn every_transform_and_coding(bytes in data(), width in 1u8..20, kind in 0usize..5, plane in 0..PLANES.len()) {
        let engine = Engine::new(2).unwrap();
        let transform = match kind {
            0 => Transform::Opaque,
            1 => Transform::BytePlane(width),
            _ => Transform::BitField([BFLOAT16, FLOAT16, FLOAT32][kind - 2]),
        };
        let planes = vec![PLANES[plane]; transform.planes()];
        let frame = z4ai::encode(&engine, &bytes, &Recipe { transform, planes });
        prop_assert_eq!(&decompress(&Pure, &frame, 1 << 30).unwrap(), &bytes);
        prop_assert_eq!(&decompress(&engine, &frame, 1 << 30).unwrap(), &bytes);
    }
}

const HUFFMAN: BlockCodecs = BlockCodecs::HUFFMAN;
const SEARCH: BlockCodecs = BlockCodecs {
    huffman: false,
    search: Some(ZstdCoding::Search(3)),
    ..HUFFMAN
};
const BOTH: BlockCodecs = BlockCodecs {
    search: Some(ZstdCoding::Long(5)),
    ..HUFFMAN
};

/// Every codec of a plane.
const PLANES: [PlaneRecipe; 10] = [
    PlaneRecipe::Store,
    PlaneRecipe::Blocks(HUFFMAN),
    PlaneRecipe::Blocks(SEARCH),
    PlaneRecipe::Blocks(BOTH),
    PlaneRecipe::Smallest(&[Codec::Zstd(ZstdCoding::Long(1))]),
    PlaneRecipe::Smallest(&[Codec::Rans]),
    PlaneRecipe::Smallest(&[Codec::RansAdaptive(100)]),
    PlaneRecipe::Smallest(&[Codec::RansOrder1]),
    PlaneRecipe::Smallest(&[
        Codec::Blocks(BOTH),
        Codec::RansAdaptive(1 << 16),
        Codec::RansOrder1,
    ]),
    PlaneRecipe::PreferFast {
        codecs: &[Codec::Blocks(HUFFMAN), Codec::Rans],
        min_gain_divisor: 200,
    },
];

#[test]
fn output_depends_on_neither_threads_nor_memory() {
    let folder = tempfile::tempdir().unwrap();
    let original = zstn_tests::many_kinds(40 << 20);
    let input = folder.path().join("model.safetensors");
    std::fs::write(&input, &original).unwrap();
    let reference = pack(&Engine::new(1).unwrap(), &original, Effort::Balanced).unwrap();
    // 64 MiB allow batches of 21 MiB, so the big tensors are packed block by block.
    let settings = [(3, 64 << 20), (2, 1 << 30), (1, 64 << 20)];
    for (threads, memory_bytes) in settings.into_iter().take(tier::count(1, 3)) {
        let target = folder.path().join("model.zstn");
        let engine = Engine::new(threads).unwrap();
        let job = Job::new().engine(&engine).memory_bytes(memory_bytes);
        let options = PackOptions::default();
        let report = zstn::pack(&job, &input, &target, &options).unwrap();
        let packed = std::fs::read(&target).unwrap();
        assert_eq!(report.packed_bytes(), packed.len() as u64);
        assert_eq!(report.tensors(), 7);
        let storage = report.files[0].storage;
        assert!(
            matches!(storage, Storage::Indexed { aliased: 2, .. }),
            "{storage:?}"
        );
        assert!(
            packed == reference,
            "{threads} threads and {memory_bytes} bytes of memory give another file"
        );
        let restored = folder.path().join("restored.safetensors");
        zstn::unpack(&job, &target, &restored, &UnpackOptions::default()).unwrap();
        assert!(std::fs::read(&restored).unwrap() == original);
    }
    assert!(unpack(&Pure, &reference).unwrap() == original);
    let catalog = FileOpener::new(reference.len() as u64, reference.clone())
        .and_then(|opening| opening.finish(&Pure))
        .unwrap();
    for (name, family) in [
        ("big", Family::Z4ai),
        ("sparse", Family::Sparse),
        ("palette", Family::Palette),
    ] {
        let tensor = &catalog.tensors()[catalog.find(name).unwrap()];
        let frame = part(&reference, tensor.stored.clone());
        assert_eq!(Family::recognise(frame), Some(family), "{name}");
    }
    assert!(
        reference.len() < original.len() / 2,
        "the tied tensor is stored once"
    );
}

#[test]
fn buffers_used_before_change_nothing() {
    let engine = Engine::new(2).unwrap();
    // An index cannot describe the last original, so it becomes a single frame.
    let originals = [
        zstn_tests::many_kinds(3 << 20),
        zstn_tests::many_kinds(1 << 20),
        [&8u64.to_le_bytes()[..], b"{}      ", &[7; 5000]].concat(),
        zstn_tests::many_kinds(2 << 20),
    ];
    let (mut packed, mut restored) = (vec![0xA5; 777], vec![0xA5; 5 << 20]);
    for original in &originals {
        let effort = Effort::Balanced;
        let plain = ContainerOptions::new(effort).integrity(false);
        pack_into(&engine, original, plain, &mut packed).unwrap();
        let mut packing = IncrementalPacker::new(original.len() as u64, plain);
        let mut piecewise = Vec::new();
        while let Some(needs) = packing.needs() {
            let bytes = part(original, needs);
            piecewise.extend(packing.supply(&engine, bytes).unwrap());
        }
        assert!(
            packed == piecewise,
            "other bytes without an integrity section"
        );
        unpack_into(&engine, &packed, &mut restored).unwrap();
        assert!(&restored == original);

        pack_into(&engine, original, effort, &mut packed).unwrap();
        let fresh = pack(&engine, original, effort).unwrap();
        assert!(packed == fresh, "other bytes in a buffer used before");
        unpack_into(&engine, &packed, &mut restored).unwrap();
        assert!(&restored == original);
    }
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 1;
    assert!(unpack_into(&engine, &damaged, &mut restored).is_err());
}

#[test]
fn a_large_tensor_that_does_not_shrink_is_stored() {
    // The tensor looks compressible in the sample and is noise elsewhere, so the packer
    // notices it only after coding the planes.
    let mut rng = Rng(3);
    let mut big = rng.bytes(30 << 20);
    let last = big.len() - (32 << 10);
    for k in 0..16 {
        let start = last / 15 * k / 8 * 8;
        for item in big[start..start + (32 << 10)].chunks_exact_mut(2) {
            item[1] %= 3;
        }
    }
    let file = checkpoint(&[("w", "BF16", &big)]);
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("noise.safetensors");
    std::fs::write(&input, &file).unwrap();
    let engine = Engine::new(2).unwrap();
    let target = folder.path().join("noise.zstn");
    let job = Job::new().engine(&engine).memory_bytes(64 << 20);
    zstn::pack(&job, &input, &target, &PackOptions::default()).unwrap();
    let packed = std::fs::read(&target).unwrap();
    assert!(packed == pack(&engine, &file, Effort::Balanced).unwrap());
    assert!(unpack(&Pure, &packed).unwrap() == file);
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
