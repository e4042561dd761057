//! Block tables: valid tables are read, and malformed ones are refused.

use zstn_core::Rule;
use zstn_core::TensorRef;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::rows::{BlockTable, FramePlan};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{self, Effort};
use zstn_core::pure::Pure;
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
