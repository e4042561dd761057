//! Reads rows through the reader, and checks their bytes and the fetched ranges.

use std::ops::Range;

use zstn::Error;
use zstn_core::ErrorKind;
use zstn_core::bytes::index;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::rng::Rng;

use super::watched::{Watched, checkpoint, native, total, with_record};

fn below(rng: &mut Rng, end: usize) -> usize {
    index(rng.next_u64() % end as u64)
}

/// Returns tensors of every element width, of 1 or 2 MB each, with rows of 250
/// elements.
fn tensors() -> Vec<(&'static str, usize, Vec<u8>)> {
    let mut rng = Rng(77);
    let bf16 = rng.bf16_weights(1_000_000);
    let wide: Vec<u8> = bf16
        .chunks(2)
        .take(500_000)
        .flat_map(|b| [b[1] & 7, 3, b[0], b[1]])
        .collect();
    let half: Vec<u8> = bf16
        .chunks(2)
        .flat_map(|b| [b[0], b[1] >> 2 | b[1] & 0x80])
        .collect();
    let long: Vec<u8> = (0..250_000u64)
        .flat_map(|i| (i * i % 50_021).to_le_bytes())
        .collect();
    let bytes: Vec<u8> = bf16.chunks(2).map(|b| b[1]).collect();
    let noise = rng.bytes(1_000_000);
    vec![
        ("BF16", 2, bf16),
        ("F32", 4, wide),
        ("F16", 2, half),
        ("I64", 8, long),
        ("U8", 1, bytes),
        ("I8", 1, noise),
    ]
}

#[test]
fn rows_of_every_dtype_are_those_of_the_tensor() {
    for effort in [Effort::Fast, Effort::Balanced, Effort::Max] {
        for (dtype, width, tensor) in tensors() {
            let (row_bytes, rows) = (250 * width, tensor.len() / (250 * width));
            let file = checkpoint(dtype, rows, 250, &tensor);
            let packed = pack(&native(), &file, effort).expect("packs");
            for (what, file) in [("packed", packed), ("plain", file)] {
                let reader = Watched::new(file).open().expect("opens");
                let mut rng = Rng(9);
                let mut cuts = vec![0..0, 0..1, rows - 1..rows, 0..rows, rows..rows];
                cuts.extend((0..20).map(|_| {
                    let start = below(&mut rng, rows);
                    start..rows.min(start + 1 + below(&mut rng, rows / 3))
                }));
                for cut in cuts {
                    let read = reader
                        .read_rows("w", cut.start as u64..cut.end as u64)
                        .expect("reads");
                    let expected = &tensor[cut.start * row_bytes..cut.end * row_bytes];
                    assert_eq!(read.shape, [cut.len() as u64, 250]);
                    assert!(read.bytes == expected, "{dtype} {effort:?} {what} {cut:?}");
                }
            }
        }
    }
}

#[test]
fn a_few_rows_take_a_block_of_every_plane() {
    let tensor = Rng(3).bf16_weights(4_000_000);
    let file = checkpoint("BF16", 8000, 500, &tensor);
    let packed = pack(&native(), &file, Effort::Balanced).expect("packs");
    let stored = packed.len() as u64;
    let watched = Watched::new(packed);
    let reader = watched.open().expect("opens");
    let opening = watched.reads();
    assert!(opening.len() <= 3, "{opening:?}");
    let rows = reader.read_rows("w", 4100..4110).expect("reads");
    assert!(rows.bytes == tensor[4100 * 1000..4110 * 1000]);
    let reads = watched.reads();
    // The table was read with the index, so each plane takes one read.
    assert!(reads.len() <= 3, "{reads:?}");
    // Each plane has about 16 blocks, so the read fetches a fraction of the stored
    // bytes.
    assert!(total(&reads) * 10 < stored, "{} of {stored}", total(&reads));
    assert_eq!(
        reader
            .plan_rows("w", 0..8000)
            .map(|rows| rows.is_whole())
            .ok(),
        Some(true)
    );
}

#[test]
fn a_table_that_did_not_come_with_the_index_is_read_first() {
    let tensor = Rng(3).bf16_weights(1_000_000);
    let file = checkpoint("BF16", 1000, 1000, &tensor);
    let packed = pack(&native(), &file, Effort::Fast).expect("packs");
    // The record fills the end of the file that opening reads, so nothing before it is
    // known.
    let packed = with_record(&packed, b"NOTE", &vec![7; 40 << 10]);
    let watched = Watched::new(packed);
    let reader = watched.open().expect("opens");
    watched.reads();
    let number = reader.model().find("w").expect("there");
    let table = reader
        .model()
        .block_table(number, &[])
        .expect("not known")
        .1;
    let rows = reader.read_rows("w", 10..20).expect("reads");
    assert!(rows.bytes == tensor[20_000..40_000]);
    assert_eq!(watched.reads()[0], table);
}

#[test]
fn what_cannot_be_cut_is_read_whole() {
    // Few distinct values lead to a palette frame, which has no blocks.
    let mut rng = Rng(4);
    let tensor: Vec<u8> = (0..2_000_000)
        .flat_map(|_| [0, 60 + (rng.next_u64() % 5) as u8])
        .collect();
    let file = checkpoint("BF16", 2000, 1000, &tensor);
    let packed = pack(&native(), &file, Effort::Balanced).expect("packs");
    let reader = Watched::new(packed).open().expect("opens");
    let plan = reader.plan_rows("w", 5..7).expect("plans");
    assert!(plan.is_whole() && plan.fetched_len_bytes().is_none());
    let rows = reader.read_planned(&plan).expect("reads");
    assert_eq!(
        (rows.shape, rows.bytes),
        (vec![2, 1000], tensor[10_000..14_000].to_vec())
    );
}

#[test]
fn a_file_without_tables_is_read_as_before() {
    let (dtype, _, tensor) = tensors().remove(0);
    let file = checkpoint(dtype, 4000, 250, &tensor);
    let options = zstn_core::container::zstn::ContainerOptions::default().integrity(false);
    let mut packing =
        zstn_core::container::zstn::IncrementalPacker::new(file.len() as u64, options);
    let mut packed = Vec::new();
    while let Some(range) = packing.needs() {
        let bytes = zstn_core::bytes::part(&file, range);
        packed.extend(packing.supply(&native(), bytes).expect("packs"));
    }
    let reader = Watched::new(packed).open().expect("opens");
    assert!(reader.plan_rows("w", 1..2).expect("plans").is_whole());
    assert!(reader.read_rows("w", 1..2).expect("reads").bytes == tensor[500..1000]);
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let tensor = Rng(4).bf16_weights(100);
    let file = checkpoint("BF16", 10, 10, &tensor);
    let reader = Watched::new(file).open().expect("opens");
    for rows in [
        0..11,
        11..11,
        Range { start: 5, end: 4 },
        0..u64::MAX,
        u64::MAX..u64::MAX,
    ] {
        let refusal = reader.read_rows("w", rows.clone()).expect_err("refused");
        let Error::Format { source, .. } = &refusal else {
            panic!("{refusal}");
        };
        assert_eq!(source.kind(), ErrorKind::InvalidInput, "{rows:?}");
    }
    assert!(reader.read_rows("nothing", 0..1).is_err());
}
