//! Reading some rows of a tensor fetches the right ranges and returns the right bytes,
//! also from damaged and changed files.

mod differences;
mod plan;
mod selections;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use zstn::source::Source;
use zstn::{Engine, Error, Job, Reader};
use zstn_core::ErrorKind;
use zstn_core::bytes::index;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

/// A file in memory that records the ranges read.
#[derive(Clone)]
pub struct Watched {
    file: Arc<Vec<u8>>,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Watched {
    pub fn new(file: Vec<u8>) -> Self {
        Self {
            file: Arc::new(file),
            reads: Arc::default(),
        }
    }

    pub fn open(&self) -> zstn::Result<Reader> {
        Reader::options()
            .engine(&native())
            .open(zstn::Input::source(self.clone()))
    }

    /// Returns the ranges read since the last call, and clears them.
    pub fn reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.reads.lock().expect("free"))
    }
}

impl Source for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn len_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        self.reads.lock().expect("free").push(range.clone());
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.file, range)))
    }
}

pub fn native() -> Engine {
    Engine::new(1).expect("a thread")
}

pub fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns a checkpoint of one tensor `w` with `rows` rows of `row` elements.
pub fn checkpoint(dtype: &str, rows: usize, row: usize, tensor: &[u8]) -> Vec<u8> {
    checkpoint_of(dtype, rows, row, &[("w", tensor)])
}

/// Returns a checkpoint of tensors that all have `rows` rows of `row` elements.
pub fn checkpoint_of(dtype: &str, rows: usize, row: usize, tensors: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let start = data.len();
            data.extend_from_slice(tensor);
            let end = data.len();
            format!(
                r#""{name}":{{"dtype":"{dtype}","shape":[{rows},{row}],"data_offsets":[{start},{end}]}}"#
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    with_header(header, data)
}

/// Returns the packed file with an extra record in its integrity section.
pub fn with_record(packed: &[u8], tag: &[u8; 4], value: &[u8]) -> Vec<u8> {
    let (front, footer) = packed.split_at(packed.len() - 20);
    let (front, magic) = front.split_at(front.len() - 8);
    let (front, len) = front.split_last_chunk::<8>().expect("a length");
    let start = front.len() - usize::try_from(u64::from_le_bytes(*len)).expect("small");
    let mut payload = front[start..front.len() - 8].to_vec();
    payload.extend_from_slice(tag);
    payload.extend_from_slice(&(value.len() as u64).to_le_bytes());
    payload.extend_from_slice(value);
    payload.extend_from_slice(&checksum([payload.as_slice()]).to_le_bytes());
    let len = (payload.len() as u64).to_le_bytes();
    [&front[..start], &payload, &len, magic, footer].concat()
}

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

#[test]
fn a_table_of_another_version_of_a_file_is_not_taken_for_damage() {
    let tensor = Rng(3).bf16_weights(1_000_000);
    let file = checkpoint("BF16", 1000, 1000, &tensor);
    let packed = pack(&native(), &file, Effort::Fast).expect("packs");
    let mut packed = with_record(&packed, b"NOTE", &vec![7; 40 << 10]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.zstn");
    std::fs::write(&path, &packed).expect("written");
    let on_disk = std::fs::File::options().write(true).open(&path);
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    on_disk.and_then(|f| f.set_modified(long_ago)).expect("set");
    let reader = Reader::open(&path).expect("opens");
    assert!(reader.read_rows("w", 10..20).is_ok());
    let (_, table) = reader.model().block_table(0, &[]).expect("not known");
    packed[index(table.start)..index(table.end)].fill(0xff);
    std::fs::write(&path, &packed).expect("written");
    let result = reader.read_rows("w", 10..20);
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
}

#[test]
fn verifying_looks_at_the_tables_too() {
    let tensor = Rng(6).bf16_weights(400_000);
    let file = checkpoint("BF16", 1000, 400, &tensor);
    let packed = pack(&native(), &file, Effort::Balanced).expect("packs");
    let place = Watched::new(packed.clone()).open().expect("opens");
    let table = place.model().files()[0]
        .integrity()
        .and_then(|i| i.table(0));
    let table = table.expect("a table");
    let folder = tempfile::tempdir().expect("a folder");
    let verify = |file: &[u8]| {
        let path = folder.path().join("m.zstn");
        std::fs::write(&path, file).expect("written");
        zstn::verify(
            &Job::new().engine(&native()),
            &path,
            &zstn::VerifyOptions::default(),
        )
    };
    assert!(verify(&packed).is_ok());
    for at in table {
        let mut damaged = packed.clone();
        damaged[usize::try_from(at).expect("small")] ^= 16;
        let refusal = verify(&damaged).expect_err("refused");
        assert!(refusal.to_string().contains("block table"), "{refusal}");
    }
}

/// After a flip anywhere in a packed file, including its tables and blocks, the rows
/// are correct or refused.
#[test]
fn damage_shows_or_does_no_harm() {
    let tensor = Rng(6).bf16_weights(400_000);
    let file = checkpoint("BF16", 1000, 400, &tensor);
    let packed = pack(&native(), &file, Effort::Balanced).expect("packs");
    let cut = 600..700u64;
    let expected = &tensor[600 * 800..700 * 800];
    let outcomes = RefCell::new((0, 0));
    let try_flip = |bit: usize| {
        let mut damaged = packed.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match Watched::new(damaged)
            .open()
            .and_then(|reader| reader.read_rows("w", cut.clone()))
        {
            Ok(rows) => {
                assert!(rows.bytes == expected, "bit {bit} gives wrong bytes");
                outcomes.borrow_mut().0 += 1;
            }
            Err(_) => outcomes.borrow_mut().1 += 1,
        }
    };
    // Flips in the prefix, in every byte of the tables, index, section and footer, and
    // in some bytes of the blocks.
    let tail_start = packed.len() - 900;
    (0..100 * 8).step_by(3).for_each(try_flip);
    (tail_start * 8..packed.len() * 8)
        .step_by(5)
        .for_each(try_flip);
    (0..packed.len() * 8).step_by(20_011).for_each(try_flip);
    let (right, refused) = outcomes.into_inner();
    assert!(right > 20 && refused > 500, "{right} {refused}");
}
