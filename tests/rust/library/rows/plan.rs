//! Block tables, valid and malformed, and the planner with hand-written tables and
//! exact byte ranges.

use std::ops::Range;

use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::rows::{BlockTable, CHECKSUM_PIECE_BYTES, FramePlan, PlaneBlocks};
use zstn_core::dtype::Dtype;
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::{self, Effort};
use zstn_core::frame::z4ai::Transform;
use zstn_core::pure::Pure;
use zstn_core::transform::bitfield::{BFLOAT16, FLOAT32};
use zstn_core::{Rule, TensorRef};
use zstn_tests::rng::Rng;

/// Returns a frame of `elements` weights, and the weights.
fn frame(elements: usize) -> (Vec<u8>, Vec<u8>) {
    let tensor = Rng(5).bf16_weights(elements);
    let frame = select::encode(
        &Pure,
        TensorRef::flat(&tensor, Some(Dtype::Bf16)),
        Effort::Balanced,
    );
    (frame, tensor)
}

/// Appends the checksum to a table.
fn sealed(mut fields: Vec<u8>) -> Vec<u8> {
    fields.extend_from_slice(&checksum([fields.as_slice()]).to_le_bytes());
    fields
}

fn rule(table: &[u8], frame_len: u64, tensor_len: u64) -> Option<Rule> {
    BlockTable::parse(table, frame_len, tensor_len)
        .expect_err("refused")
        .rule()
}

#[test]
fn what_is_written_is_read() {
    let (frame, tensor) = frame(400_001);
    let table = BlockTable::of(&frame).expect("a table");
    let bytes = table.to_bytes();
    let (frame_len, tensor_len) = (frame.len() as u64, tensor.len() as u64);
    assert_eq!(BlockTable::parse(&bytes, frame_len, tensor_len), Ok(table));
    assert!(bytes.len() * 1000 < frame.len(), "{} bytes", bytes.len());
}

#[test]
fn every_flip_and_every_cut_is_refused() {
    let (frame, tensor) = frame(300_000);
    let bytes = BlockTable::of(&frame).expect("a table").to_bytes();
    let (frame_len, tensor_len) = (frame.len() as u64, tensor.len() as u64);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            rule(&flipped, frame_len, tensor_len),
            Some(Rule::ZstnBlockTable),
            "{bit}"
        );
    }
    for len in 0..bytes.len() {
        assert!(
            BlockTable::parse(&bytes[..len], frame_len, tensor_len).is_err(),
            "{len}"
        );
    }
}

#[test]
fn a_table_of_another_frame_is_refused() {
    let (frame, tensor) = frame(300_000);
    let bytes = BlockTable::of(&frame).expect("a table").to_bytes();
    let (frame_len, tensor_len) = (frame.len() as u64, tensor.len() as u64);
    assert_eq!(
        rule(&bytes, frame_len - 1, tensor_len),
        Some(Rule::ZstnBlockTable)
    );
    assert_eq!(
        rule(&bytes, frame_len, tensor_len + 2),
        Some(Rule::ZstnBlockTable)
    );
}

/// The forged tables have a valid checksum. They must be refused or yield the correct
/// bytes, in memory that the input justifies.
#[test]
fn forged_tables_give_errors_or_the_right_bytes() {
    let (frame, tensor) = frame(300_000);
    let (frame_len, tensor_len) = (frame.len() as u64, tensor.len() as u64);
    let bytes = BlockTable::of(&frame).expect("a table").to_bytes();
    let fields = &bytes[..bytes.len() - 8];
    let mut refused = 0;
    for place in 0..fields.len() {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut forged = fields.to_vec();
            if forged[place] == value {
                continue;
            }
            forged[place] = value;
            let Ok(table) = BlockTable::parse(&sealed(forged), frame_len, tensor_len) else {
                refused += 1;
                continue;
            };
            let span = 1000..9000;
            let plan = FramePlan::new(&table, span.clone());
            let fetched: Vec<&[u8]> = plan
                .ranges()
                .iter()
                .map(|range| zstn_core::bytes::part(&frame, range.clone()))
                .collect();
            match plan.decode(&Pure, &fetched) {
                Ok(part) => assert_eq!(part, tensor[1000..9000], "{value} at {place}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > fields.len(), "{refused}");
}

#[test]
fn a_table_cannot_promise_more_than_it_holds() {
    for (method, len, what) in [
        (0u8, u64::MAX, "stored"),
        (2, u64::MAX, "blocks"),
        (3, 1 << 40, "rANS"),
    ] {
        let mut fields = vec![0, 1, 0, method];
        fields.extend_from_slice(&100u64.to_le_bytes());
        fields.extend_from_slice(&len.to_le_bytes());
        if method == 2 {
            fields.extend_from_slice(&1u32.to_le_bytes());
        }
        fields.extend_from_slice(&[0; 64]);
        let refusal = BlockTable::parse(&sealed(fields), 1 << 20, len).expect_err(what);
        assert!(refusal.rule().is_some(), "{what}: {refusal}");
    }
}

#[test]
fn plane_sizes_add_up() {
    let (frame, tensor) = frame(400_001);
    let planes = BlockTable::of(&frame).expect("a table").plane_sizes();
    let names: Vec<&str> = planes.iter().map(|plane| plane.name.as_str()).collect();
    assert_eq!(names, ["sign", "exponent", "mantissa"]);
    let stored: u64 = planes.iter().map(|plane| plane.stored_len_bytes).sum();
    let frame_len = frame.len() as u64;
    assert!(stored < frame_len && stored > frame_len - 1000, "{stored}");
    let decoded: Vec<u64> = planes.iter().map(|plane| plane.len_bytes).collect();
    let elements = tensor.len() as u64 / 2;
    assert_eq!(decoded, [elements.div_ceil(8), elements, elements]);
}

const FRAME_BYTES: u64 = 1 << 20;

/// Returns a plane of `len_bytes` bytes at offset `start`, in blocks of `block_bytes`
/// whose stored lengths are `stored`.
fn blocks(start: u64, len_bytes: u64, block_bytes: u64, stored: &[usize]) -> PlaneBlocks {
    let mut plane = PlaneBlocks::new(Method::Blocks, len_bytes, start, block_bytes);
    stored.iter().for_each(|&len| plane.push(&vec![0; len]));
    plane
}

fn stored(start: u64, len_bytes: u64) -> PlaneBlocks {
    let mut plane = PlaneBlocks::new(Method::Store, len_bytes, start, 0);
    plane.push(&vec![0; usize::try_from(len_bytes).expect("small")]);
    plane
}

fn table(transform: Transform, tail: &[u8], planes: Vec<PlaneBlocks>) -> BlockTable {
    BlockTable::new(transform, tail, FRAME_BYTES, planes).expect("something to cut")
}

/// Returns the starts and ends of the ranges to fetch.
fn ranges(table: &BlockTable, span: Range<u64>) -> Vec<(u64, u64)> {
    let plan = FramePlan::new(table, span);
    plan.ranges().iter().map(|r| (r.start, r.end)).collect()
}

#[test]
fn byte_planes_need_the_blocks_of_their_elements() {
    // 250 two-byte elements and one extra byte.
    let planes = vec![
        blocks(100, 250, 100, &[10, 20, 30]),
        blocks(1000, 250, 100, &[7, 7, 7]),
    ];
    let table = table(Transform::BytePlane(2), &[9], planes);
    // One element in a middle block.
    assert_eq!(ranges(&table, 300..302), [(110, 130), (1007, 1014)]);
    // Half an element needs the same ranges.
    assert_eq!(ranges(&table, 301..302), [(110, 130), (1007, 1014)]);
    // The last element of one block and the first of the next.
    assert_eq!(ranges(&table, 198..202), [(100, 130), (1000, 1014)]);
    assert_eq!(ranges(&table, 198..200), [(100, 110), (1000, 1007)]);
    assert_eq!(ranges(&table, 0..501), [(100, 160), (1000, 1021)]);
    // The extra byte after the last element is stored in the table.
    assert_eq!(ranges(&table, 500..501), []);
    assert_eq!(ranges(&table, 7..7), []);
}

#[test]
fn stored_planes_are_cut_where_their_checksums_are() {
    let piece = CHECKSUM_PIECE_BYTES as u64;
    let table = table(Transform::Opaque, &[], vec![stored(50, 2 * piece + 10)]);
    assert_eq!(ranges(&table, 0..1), [(50, 50 + piece)]);
    assert_eq!(
        ranges(&table, piece..piece + 1),
        [(50 + piece, 50 + 2 * piece)]
    );
    let last = (50 + 2 * piece, 60 + 2 * piece);
    assert_eq!(ranges(&table, 2 * piece..2 * piece + 10), [last]);
}

#[test]
fn bit_fields_take_eight_elements_for_a_byte_of_signs() {
    // 800 elements: 100 bytes of signs, in blocks of 400 bits, 80 bytes and 80 bytes.
    let planes = vec![
        blocks(0, 100, 50, &[5, 5]),
        blocks(100, 800, 80, &[9; 10]),
        blocks(500, 800, 80, &[40; 10]),
    ];
    let table = table(Transform::BitField(BFLOAT16), &[], planes);
    // Elements 72 to 79 share a byte of signs.
    assert_eq!(ranges(&table, 158..160), [(0, 5), (100, 109), (500, 540)]);
    // Elements 79 and 80 need elements 72 to 87.
    assert_eq!(ranges(&table, 158..162), [(0, 5), (100, 118), (500, 580)]);
    // Elements 399 and 400 are on either side of a sign block boundary.
    assert_eq!(ranges(&table, 798..802), [(0, 10), (136, 154), (660, 740)]);
}

#[test]
fn bytes_of_a_mantissa_lie_far_apart() {
    // 64 elements of F32: 64 low, 64 middle and 64 high bytes of mantissas.
    let planes = vec![
        stored(0, 8),
        blocks(10, 64, 32, &[3, 3]),
        blocks(20, 192, 32, &[2, 2, 2, 2, 2, 2]),
    ];
    let table = table(Transform::BitField(FLOAT32), &[], planes);
    // Adjacent ranges are merged.
    assert_eq!(
        ranges(&table, 0..4),
        [(0, 8), (10, 13), (20, 22), (24, 26), (28, 30)]
    );
    let all = ranges(&table, 0..256);
    assert_eq!(all, [(0, 8), (10, 16), (20, 32)]);
}

#[test]
fn a_plane_in_one_piece_is_needed_whole() {
    let mut whole = PlaneBlocks::new(Method::Rans, 100, 0, 0);
    whole.push(&[0; 60]);
    let planes = vec![whole, blocks(80, 100, 50, &[8, 8])];
    let table = table(Transform::BytePlane(2), &[], planes);
    assert_eq!(ranges(&table, 120..122), [(0, 60), (88, 96)]);
}

#[test]
fn there_is_no_table_without_something_to_cut() {
    let mut whole = PlaneBlocks::new(Method::Zstd, 100, 0, 0);
    whole.push(&[0; 60]);
    let planes = vec![whole];
    assert_eq!(
        BlockTable::new(Transform::Opaque, &[], FRAME_BYTES, planes),
        None
    );
    let short = vec![blocks(0, 100, 50, &[8, 8])];
    assert_eq!(BlockTable::new(Transform::Opaque, &[], 1000, short), None);
}
