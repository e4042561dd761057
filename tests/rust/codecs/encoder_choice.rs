//! Tests the encoder's choices through its public interface: its output is
//! deterministic and small, and each codec is chosen where it is the best one.

use zstn::Engine;
use zstn_core::TensorRef;
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::dtype::Dtype;
use zstn_core::engine::{PackEngine as _, ZstdCoding};
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::{Effort, EncodeOptions, encode};
use zstn_core::frame::z4ai::{self, BlockCodecs, PlaneRecipe, Recipe, Transform};
use zstn_core::frame::{Families, Family, Frame, decompress, palette, sparse, turbo};
use zstn_core::pure::Pure;
use zstn_core::transform::bitfield::{BFLOAT16, FLOAT32};
use zstn_tests::rng::Rng;
use zstn_tests::{native, tier};

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];

/// Encodes `tensor`, checks that both engines restore it, and returns the frame.
fn coded(tensor: &[u8], dtype: Dtype, effort: Effort) -> Vec<u8> {
    let engine = native();
    let frame = encode(&engine, TensorRef::flat(tensor, Some(dtype)), effort);
    for restored in [
        decompress(&engine, &frame, 1 << 32),
        decompress(&Pure, &frame, 1 << 32),
    ] {
        assert!(restored.unwrap() == tensor, "{dtype:?} {effort:?}");
    }
    frame
}

fn planes(frame: &[u8]) -> (Transform, Vec<Method>) {
    match Frame::parse(frame).unwrap() {
        Frame::Z4ai(frame) => (
            frame.transform(),
            frame.planes().iter().map(|plane| plane.method()).collect(),
        ),
        other => panic!("{other:?} is no frame of planes"),
    }
}

fn f32_weights(rng: &mut Rng, count: usize) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation)]
    let value = |rng: &mut Rng| (rng.normal(0.02) as f32).to_le_bytes();
    (0..count).flat_map(|_| value(rng)).collect()
}

#[test]
fn one_two_and_eight_threads_give_the_same_bytes() {
    let original = zstn_tests::many_kinds(3 << 20);
    let mut tuned = original.clone();
    let start = tuned.len() - (1 << 20);
    for (k, byte) in tuned[start..].iter_mut().enumerate() {
        *byte ^= u8::from(k % 50 == 0);
    }
    for effort in EFFORTS {
        let packed = |threads| {
            let engine = Engine::new(threads).unwrap();
            let base = model_delta::Base::parse(&original).unwrap();
            let delta = model_delta::pack(&engine, &tuned, &base, effort).unwrap();
            (pack(&engine, &original, effort).unwrap(), delta)
        };
        let one = packed(1);
        for threads in [8, 2].into_iter().take(tier::count(1, 2)) {
            assert!(one == packed(threads), "{effort:?} on {threads} threads");
        }
    }
}

#[test]
fn more_effort_is_never_larger() {
    let engine = native();
    let mut rng = Rng(21);
    let zeros = |mut weights: Vec<u8>, rng: &mut Rng| {
        for item in weights.chunks_exact_mut(2) {
            if !rng.next_u64().is_multiple_of(4) {
                item.fill(0);
            }
        }
        weights
    };
    let weights = rng.bf16_weights(100_000);
    let cases = [
        (Dtype::Bf16, weights.clone()),
        (Dtype::Bf16, zeros(weights, &mut rng)),
        (Dtype::F32, f32_weights(&mut rng, 60_000)),
        (Dtype::U8, rng.bytes(50_000)),
        (
            Dtype::I16,
            (0..60_000u32)
                .flat_map(|i| [(i / 100).to_le_bytes()[0], 0])
                .collect(),
        ),
    ];
    for (dtype, tensor) in cases {
        let [fast, balanced, max] = EFFORTS.map(|effort| coded(&tensor, dtype, effort).len());
        let alone = standalone(&engine, &tensor, dtype).len();
        // `Fast` may win by chance where `Balanced` decided from a sample.
        assert!(
            balanced * 1000 <= fast * 1005,
            "{dtype:?}: {balanced}, {fast}"
        );
        assert!(max <= balanced, "{dtype:?}: {max}, {balanced}");
        assert!(alone <= max, "{dtype:?}: {alone}, {max}");
    }
}

#[test]
fn floats_are_cut_into_bit_fields() {
    let mut rng = Rng(5);
    for (dtype, tensor) in [
        (Dtype::Bf16, rng.bf16_weights(200_000)),
        (Dtype::F32, f32_weights(&mut rng, 200_000)),
    ] {
        let frame = coded(&tensor, dtype, Effort::Balanced);
        let (transform, methods) = planes(&frame);
        assert!(matches!(transform, Transform::BitField(_)), "{dtype:?}");
        assert_eq!(methods[0], Method::Store, "signs are noise");
        let (fast, _) = planes(&coded(&tensor, dtype, Effort::Fast));
        assert!(matches!(fast, Transform::BytePlane(_)), "{dtype:?}");
    }
}

#[test]
fn ordinary_exponents_take_huffman_codes_and_rans_only_for_the_smallest_file() {
    let mut rng = Rng(6);
    for elements in [300_000, 1_500_000] {
        let weights = rng.bf16_weights(elements);
        let method = |effort| planes(&coded(&weights, Dtype::Bf16, effort)).1[1];
        let huffman = [Method::Zstd, Method::Blocks];
        assert!(huffman.contains(&method(Effort::Balanced)), "{elements}");
        let rans = [Method::Rans, Method::RansAdaptive];
        assert!(rans.contains(&method(Effort::Max)), "{elements}");
    }
}

#[test]
fn order_one_takes_what_follows_from_the_byte_before() {
    // Each byte is one of two values that depend on the previous byte. All values are
    // equally frequent, and matches are short.
    let mut rng = Rng(7);
    let mut last = 0u8;
    let chain: Vec<u8> = (0..400_000)
        .map(|_| {
            let step = if rng.next_u64().is_multiple_of(16) {
                5
            } else {
                1
            };
            last = (last + step) % 16;
            last
        })
        .collect();
    let frame = coded(&chain, Dtype::U8, Effort::Max);
    assert_eq!(planes(&frame).1, [Method::RansOrder1]);
    assert!(
        frame.len() * 8 < chain.len() * 2 / 5,
        "{} bytes",
        frame.len()
    );
}

/// The tensor holds four-bit floats as bfloat16, in groups of sixteen that share an
/// eight-bit scale, so each mantissa limits the values of the next one.
#[test]
fn order_one_takes_mantissas_of_a_grid() {
    const MAGNITUDES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut rng = Rng(31);
    let mut tensor = Vec::new();
    while tensor.len() < 4 << 20 {
        let scale = 2f64.powi(-9) * (8 + rng.next_u64() % 8) as f64;
        for _ in 0..16 {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let number = (rng.normal(1.0).abs() * 3.0) as usize;
            let sign = if rng.next_u64().is_multiple_of(2) {
                1.0
            } else {
                -1.0
            };
            #[allow(clippy::cast_possible_truncation)]
            let value = (sign * scale * MAGNITUDES[number.min(7)]) as f32;
            tensor.extend_from_slice(&value.to_le_bytes()[2..]);
        }
    }
    let frame = coded(&tensor, Dtype::Bf16, Effort::Balanced);
    let (transform, methods) = planes(&frame);
    assert_eq!(transform, Transform::BitField(BFLOAT16));
    assert_eq!(methods[2], Method::RansOrder1);
}

#[test]
fn copies_far_apart_cost_next_to_nothing() {
    let mut rng = Rng(8);
    let matrix = rng.bf16_weights(1_100_000);
    let single = coded(&matrix, Dtype::Bf16, Effort::Balanced).len();
    let stacked = coded(&matrix.repeat(4), Dtype::Bf16, Effort::Balanced).len();
    assert!(
        stacked < single * 11 / 10,
        "{stacked} for four, {single} for one"
    );
}

#[test]
fn tiles_and_masks_are_as_small_as_one_zstd_frame() {
    let engine = native();
    let tile: Vec<u8> = (0..=u8::MAX).cycle().take(12 << 20).collect();
    let row = |row| (0..4096).map(move |column| u8::from(column <= row));
    let mask: Vec<u8> = (0..4096).flat_map(row).collect();
    for tensor in [tile, mask] {
        let mut whole = Vec::new();
        engine.zstd_encode(&tensor, ZstdCoding::Search(3), &mut whole);
        let frame = coded(&tensor, Dtype::U8, Effort::Balanced);
        let (len, most) = (frame.len(), whole.len() * 51 / 50 + 40);
        assert!(len <= most, "{len} bytes are over {most}");
    }
}

#[test]
fn containers_never_get_frames_that_z4ai_refuses_there() {
    let mut rng = Rng(9);
    let text: Vec<u8> = (0..40_000)
        .flat_map(|_| *[b"the ", b"and ", b"of t", b"hat "][(rng.next_u64() % 4) as usize % 4])
        .collect();
    let alone = standalone(&native(), &text, Dtype::I32);
    for effort in EFFORTS {
        let frame = coded(&text, Dtype::I32, effort);
        let family = Family::recognise(&frame).unwrap();
        assert!(Families::CONTAINER.contains(family), "{family:?}");
        assert!(alone.len() <= frame.len());
    }
}

/// Returns the length of the shortest frame over all transforms whose planes are coded
/// by Huffman codes or a search.
fn tried_in_every_way(tensor: &[u8], dtype: Dtype) -> usize {
    let plane = PlaneRecipe::Blocks(BlockCodecs {
        search: Some(ZstdCoding::Search(3)),
        ..BlockCodecs::HUFFMAN
    });
    let mut transforms = vec![Transform::Opaque];
    transforms.extend(match dtype {
        Dtype::Bf16 => vec![Transform::BytePlane(2), Transform::BitField(BFLOAT16)],
        Dtype::F32 => vec![Transform::BytePlane(4), Transform::BitField(FLOAT32)],
        Dtype::I64 => vec![Transform::BytePlane(8)],
        _ => vec![],
    });
    let coded = transforms.into_iter().map(|transform| {
        let planes = vec![plane; transform.planes()];
        z4ai::encode(&native(), tensor, &Recipe { transform, planes }).len()
    });
    coded.min().unwrap()
}

#[test]
fn small_tensors_lose_nothing_for_not_being_tried_in_every_way() {
    let mut rng = Rng(77);
    let ids = |count: u64| (0..count).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let ones = [0x80, 0x3F].repeat(384);
    let mut cases = vec![
        (Dtype::I64, ids(512)),
        (Dtype::I64, ids(3)),
        (Dtype::Bf16, ones),
        (Dtype::U8, b"a word, and the same word".repeat(40)),
        (Dtype::U8, vec![]),
    ];
    for count in [1, 7, 64, 384, 1000, 2048, 4096] {
        let block = rng.bytes(count);
        cases.push((Dtype::Bf16, rng.bf16_weights(count)));
        cases.push((Dtype::F32, f32_weights(&mut rng, count)));
        cases.push((Dtype::U8, rng.bytes(count)));
        cases.push((Dtype::U8, [&block[..], &block].concat()));
        // Sixteen distinct values, and a tensor with many zeros.
        let nibbles = rng.bytes(count).into_iter();
        cases.push((Dtype::U8, nibbles.clone().map(|byte| byte & 15).collect()));
        let sparse = nibbles.map(|byte| if byte < 200 { 0 } else { byte });
        cases.push((Dtype::Bf16, sparse.collect()));
    }
    for (dtype, tensor) in cases {
        let every = tried_in_every_way(&tensor, dtype);
        for effort in [Effort::Balanced, Effort::Max] {
            let len = coded(&tensor, dtype, effort).len();
            let most = every + every / 100 + 8;
            assert!(len <= most, "{dtype:?} of {}: {len}, {every}", tensor.len());
        }
    }
}

/// Returns normally distributed values, rounded to `levels` equal steps on either side
/// of zero, as bfloat16 or float32.
fn quantised(rng: &mut Rng, levels: f64, rows: usize, dtype: Dtype) -> Vec<u8> {
    const ROW: usize = 384;
    let mut out = Vec::new();
    for _ in 0..rows * ROW {
        let level = (rng.normal(levels / 3.0)).round().clamp(-levels, levels);
        #[allow(clippy::cast_possible_truncation)]
        let bytes = (level * 0.007_352_1 / levels) as f32;
        let bytes = bytes.to_le_bytes();
        out.extend_from_slice(if dtype == Dtype::Bf16 {
            &bytes[2..]
        } else {
            &bytes
        });
    }
    out
}

#[test]
fn a_glance_at_quantised_and_sparse_weights_loses_next_to_nothing() {
    let mut rng = Rng(78);
    let mut cases = Vec::new();
    for dtype in [Dtype::Bf16, Dtype::F32] {
        for levels in [1.0, 7.0, 127.0] {
            let tensor = quantised(&mut rng, levels, 700, dtype);
            // The first row repeated, which a search finds.
            let rows = tensor[..tensor.len() / 700].repeat(700);
            cases.extend([(dtype, tensor), (dtype, rows)]);
        }
    }
    for kept in [10, 128, 200] {
        let mut pruned = rng.bf16_weights(300_000);
        for item in pruned.as_chunks_mut::<2>().0 {
            if rng.bytes(1)[0] >= kept {
                *item = [0; 2];
            }
        }
        cases.push((Dtype::Bf16, pruned));
    }
    let codings = [ZstdCoding::Huffman, ZstdCoding::Search(3)];
    for (dtype, tensor) in cases {
        let width = if dtype == Dtype::Bf16 { 2 } else { 4 };
        let engine = &native();
        let palette = palette::encode(engine, &tensor, width, 256, &codings);
        let cut = turbo::TurboTransform::BytePlane;
        let sparse = sparse::encode(engine, &tensor, width, cut, &codings);
        let planes = tried_in_every_way(&tensor, dtype);
        let every = palette.map_or(planes, |frame| frame.len().min(planes));
        let every = every.min(sparse.len());
        let len = coded(&tensor, dtype, Effort::Balanced).len();
        let most = every + every / 100 + tensor.len() / 2000;
        assert!(len <= most, "{dtype:?} of {}: {len}, {every}", tensor.len());
    }
}

/// Encodes a standalone frame, which may belong to any family.
fn standalone(engine: &Engine, tensor: &[u8], dtype: Dtype) -> Vec<u8> {
    let options = EncodeOptions::new(Effort::Max).families(Families::STANDALONE);
    encode(engine, TensorRef::flat(tensor, Some(dtype)), options)
}

#[test]
fn families_that_a_reader_does_not_know_are_not_written() {
    let zeros_and_few: Vec<u8> = (0..200_000u32)
        .flat_map(|i| {
            if i % 9 == 0 {
                f32::to_le_bytes(i as f32)
            } else {
                [0; 4]
            }
        })
        .collect();
    let tensor = TensorRef::flat(&zeros_and_few, Some(Dtype::F32));
    let usual = encode(&native(), tensor, Effort::Balanced);
    assert_eq!(Family::recognise(&usual), Some(Family::Sparse));
    let without = Families::default().without(Family::Sparse);
    let options = EncodeOptions::new(Effort::Balanced).families(without);
    let frame = encode(&native(), tensor, options);
    assert_ne!(Family::recognise(&frame), Some(Family::Sparse));
    assert_eq!(
        decompress(&Pure, &frame, 1 << 30).as_deref(),
        Ok(&zeros_and_few[..])
    );
}
