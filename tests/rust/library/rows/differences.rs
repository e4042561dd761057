//! Rows of tensors that a delta stores as differences from a base or copies from it.

use std::ops::Range;
use std::sync::OnceLock;

use zstn::Reader;
use zstn_core::Rule;
use zstn_core::bytes::{index, part};
use zstn_core::container::model_delta::{self, Base};
use zstn_core::container::zstn::{self as container, ContainerOptions};
use zstn_core::frame::select::EncodeOptions;
use zstn_tests::rng::Rng;

use super::{Watched, checkpoint_of, native, total};

pub const COLUMNS: usize = 512;
pub const ROWS: usize = 4000;
const ROW_BYTES: usize = 2 * COLUMNS;
/// The row ranges to read: short ranges, ranges within one block and across several,
/// and the last row.
const CUTS: [Range<u64>; 5] = [0..1, 5..9, 255..258, 1000..2100, 3999..4000];

/// A base and two later checkpoints of its training. Most elements of `changed` differ,
/// none of `copied`, and `merged` differs by a matrix of rank 4.
pub struct Checkpoints {
    pub base: Vec<u8>,
    pub first: Vec<u8>,
    second: Vec<u8>,
    /// The delta from `base` to `first`.
    pub first_delta: Vec<u8>,
}

fn bf16(bytes: &[u8]) -> f32 {
    f32::from_bits(u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 24)
}

fn to_bf16(value: f32) -> [u8; 2] {
    let [_, _, low, high] = (value.to_bits() + 0x8000).to_le_bytes();
    [low, high]
}

fn changed(tensor: &[u8], mut change: impl FnMut(usize) -> f32) -> Vec<u8> {
    let elements = tensor.chunks(2).enumerate();
    elements
        .flat_map(|(place, bytes)| to_bf16(bf16(bytes) + change(place)))
        .collect()
}

impl Checkpoints {
    /// Returns the checkpoints, which all tests share.
    pub fn get() -> &'static Self {
        static MADE: OnceLock<Checkpoints> = OnceLock::new();
        MADE.get_or_init(Self::new)
    }

    fn new() -> Self {
        let mut rng = Rng(2312);
        let [a, b, c] = [(); 3].map(|()| rng.bf16_weights(ROWS * COLUMNS));
        let noise = |tensor: &[u8], rng: &mut Rng| {
            changed(tensor, |place| {
                let is_still = (place / COLUMNS).is_multiple_of(3);
                #[allow(clippy::cast_possible_truncation)]
                let step = rng.normal(2e-4) as f32;
                if is_still { 0.0 } else { step }
            })
        };
        let left: Vec<f64> = (0..4 * ROWS).map(|_| rng.normal(1e-2)).collect();
        let right: Vec<f64> = (0..4 * COLUMNS).map(|_| rng.normal(1e-1)).collect();
        let merged = changed(&c, |place| {
            let (row, column) = (place / COLUMNS, place % COLUMNS);
            let terms = (0..4).map(|k| left[4 * row + k] * right[k * COLUMNS + column]);
            #[allow(clippy::cast_possible_truncation)]
            let sum = terms.sum::<f64>() as f32;
            sum
        });
        let first = noise(&a, &mut rng);
        let second = noise(&first, &mut rng);
        let file = |changed: &[u8], merged: &[u8]| {
            let tensors = [("changed", changed), ("copied", &b), ("merged", merged)];
            checkpoint_of("BF16", ROWS, COLUMNS, &tensors)
        };
        let (base, first) = (file(&a, &c), file(&first, &merged));
        Self {
            first_delta: delta(&first, &base),
            base,
            first,
            second: file(&second, &merged),
        }
    }
}

fn delta(tuned: &[u8], base: &[u8]) -> Vec<u8> {
    let base = Base::parse(base).expect("a base");
    let options = EncodeOptions::default().extended(true);
    model_delta::pack(&native(), tuned, &base, options).expect("packs")
}

pub fn packed(file: &[u8]) -> Vec<u8> {
    container::pack(&native(), file, ContainerOptions::default()).expect("packs")
}

fn rows_of(file: &[u8], name: &str, rows: &Range<u64>) -> Vec<u8> {
    let reader = Watched::new(file.to_vec()).open().expect("opens");
    let bytes = reader.read(name).expect("reads").bytes;
    part(
        &bytes,
        rows.start * ROW_BYTES as u64..rows.end * ROW_BYTES as u64,
    )
    .to_vec()
}

#[test]
fn rows_of_a_difference_take_blocks_of_both_files() {
    let files = Checkpoints::get();
    let delta = Watched::new(files.first_delta.clone());
    let base = Watched::new(packed(&files.base));
    let reader = base.open().and_then(|base| delta.open()?.with_base(base));
    let reader = reader.expect("opens");
    for name in ["changed", "copied", "merged"] {
        let tensor = reader.find(name).expect("is there");
        let whole = tensor.stored_len_bytes()
            + base
                .open()
                .expect("opens")
                .find(name)
                .expect("is there")
                .stored_len_bytes();
        for rows in CUTS {
            delta.reads();
            base.reads();
            let read = reader.read_rows(name, rows.clone()).expect("reads");
            let fetched = total(&delta.reads()) + total(&base.reads());
            assert!(
                read.bytes == rows_of(&files.first, name, &rows),
                "{name} {rows:?}"
            );
            assert_eq!(read.shape, [rows.end - rows.start, COLUMNS as u64]);
            let is_short = rows.end - rows.start < 10;
            assert!(
                !is_short || fetched * 4 < whole,
                "{name} {rows:?}: {fetched} of {whole}"
            );
            let plan = reader.plan_rows(name, rows.clone()).expect("plans");
            assert!(
                !plan.is_whole() && plan.fetched_len_bytes().is_some(),
                "{name} {rows:?}"
            );
        }
        let all = reader.read_rows(name, 0..ROWS as u64).expect("reads");
        assert!(all.bytes == rows_of(&files.first, name, &(0..ROWS as u64)));
        let none = reader.read_rows(name, 7..7).expect("reads");
        assert!(none.bytes.is_empty());
    }
}

/// The low-rank factors belong to the head, whose length the first read guesses.
#[test]
fn a_head_that_is_longer_than_was_guessed_is_read_again() {
    let files = Checkpoints::get();
    let delta = Watched::new(files.first_delta.clone());
    let base = Watched::new(packed(&files.base)).open();
    let reader = base.and_then(|base| delta.open()?.with_base(base));
    let reader = reader.expect("opens");
    drop(delta.reads());
    for (name, heads) in [("changed", 1), ("merged", 2)] {
        reader.read_rows(name, 5..9).expect("reads");
        let reads = delta.reads();
        let start = reader.find(name).expect("is there").parts[0].stored.start;
        let of_heads = reads.iter().filter(|range| range.start == start);
        assert_eq!(of_heads.count(), heads, "{name}: {reads:?}");
    }
}

#[test]
fn rows_through_a_chain_of_differences() {
    let files = Checkpoints::get();
    let [first, second] = [
        files.first_delta.clone(),
        delta(&files.second, &files.first),
    ];
    let open = |file: &[u8]| Watched::new(file.to_vec()).open().expect("opens");
    let base = open(&packed(&files.base));
    let middle = open(&first).with_base(base).expect("fits");
    let reader = open(&second).with_base(middle).expect("fits");
    for name in ["changed", "copied", "merged"] {
        for rows in CUTS {
            let read = reader.read_rows(name, rows.clone()).expect("reads");
            assert!(
                read.bytes == rows_of(&files.second, name, &rows),
                "{name} {rows:?}"
            );
            let plan = reader.plan_rows(name, rows).expect("plans");
            assert!(!plan.is_whole(), "{name}");
        }
    }
}

/// A range cannot show that the base is a different one, so the whole base is read.
#[test]
fn a_base_without_digests_is_read_whole_and_another_one_refused() {
    let files = Checkpoints::get();
    let delta = files.first_delta.clone();
    let open = |base: Vec<u8>| -> Reader {
        let base = Watched::new(base).open().expect("opens");
        let delta = Watched::new(delta.clone()).open().expect("opens");
        delta.with_base(base).expect("fits by names and lengths")
    };
    let plain = open(files.base.clone());
    assert!(plain.plan_rows("changed", 5..9).expect("plans").is_whole());
    let read = plain.read_rows("changed", 5..9).expect("reads");
    assert!(read.bytes == rows_of(&files.first, "changed", &(5..9)));

    // The names and lengths are the same, but the bytes differ.
    let mut other = files.base.clone();
    let end = other.len();
    for place in [
        end - 1,
        end - ROWS * ROW_BYTES - 1,
        end - 2 * ROWS * ROW_BYTES - 1,
    ] {
        other[place] ^= 1;
    }
    for base in [packed(&other), other] {
        let wrong = open(base);
        for name in ["changed", "copied", "merged"] {
            let error = wrong.read_rows(name, 5..9).expect_err("another base");
            let zstn::Error::Format { source, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(source.rule(), Some(Rule::DeltaReference), "{name}");
        }
    }
}

/// Two files of the base contain the tensor, and the index names the wrong one: its
/// bytes are read, and do not match the digest.
#[test]
fn a_base_in_files_of_which_another_one_is_read_is_refused() {
    let files = Checkpoints::get();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).expect("written");
    write("one.zstn", &packed(&files.base));
    write("two.zstn", &packed(&files.second));
    let index = br#"{"weight_map":{"changed":"two.zstn","copied":"one.zstn","merged":"one.zstn"}}"#;
    write("model.zstn.index.json", index);
    let delta = Watched::new(files.first_delta.clone());
    let base = Reader::open(at("model.zstn.index.json")).expect("opens");
    let reader = delta.open().and_then(|delta| delta.with_base(base));
    let reader = reader.expect("fits by names and lengths");
    let is_whole = |name| reader.plan_rows(name, 5..9).expect("plans").is_whole();
    assert_eq!(["changed", "merged"].map(is_whole), [true, false]);
    let error = reader.read_rows("changed", 5..9).expect_err("other bytes");
    let zstn::Error::Format { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.rule(), Some(Rule::DeltaReference));
    let read = reader.read_rows("merged", 5..9).expect("reads");
    assert!(read.bytes == rows_of(&files.first, "merged", &(5..9)));
}

#[test]
fn damaged_blocks_of_either_file_are_refused() {
    let files = Checkpoints::get();
    let delta = files.first_delta.clone();
    let base = packed(&files.base);
    let reads = |delta: &[u8], base: &[u8]| {
        let watched = [delta, base].map(|file| Watched::new(file.to_vec()));
        let [delta, base] = watched.each_ref().map(|file| file.open().expect("opens"));
        let reader = delta.with_base(base).expect("fits");
        watched.iter().for_each(|file| drop(file.reads()));
        let read = reader.read_rows("changed", 255..258);
        (read, watched.map(|file| file.reads()))
    };
    let (good, ranges) = reads(&delta, &base);
    let expected = good.expect("reads").bytes;
    for (number, ranges) in ranges.iter().enumerate() {
        assert!(!ranges.is_empty());
        for range in ranges {
            for place in [range.start, (range.start + range.end) / 2, range.end - 1] {
                let mut damaged = [delta.clone(), base.clone()];
                damaged[number][index(place)] ^= 4;
                match reads(&damaged[0], &damaged[1]).0 {
                    // The changed byte was fetched but belongs to another block.
                    Ok(read) => assert!(read.bytes == expected, "{number} {place}"),
                    Err(zstn::Error::Format { .. }) => {}
                    Err(error) => panic!("{number} {place}: {error}"),
                }
            }
        }
    }
}
