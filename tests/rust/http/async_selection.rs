//! `AsyncReader` fetches the blocks that a selection needs.

use super::async_reader::block_on;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zstn::source::{AsyncSource, Reading};
use zstn::{AsyncReader, Indices, Job, PackOptions, Reader, Selection};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, native, with_header};

/// Bytes in memory that count the bytes that are read.
#[derive(Clone)]
struct Counted(Arc<Vec<u8>>, Arc<AtomicU64>);

impl Counted {
    fn of(path: &std::path::Path) -> Self {
        Self(std::fs::read(path).unwrap().into(), Arc::default())
    }
}

impl AsyncSource for Counted {
    fn name(&self) -> &str {
        "counted bytes"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
        self.1.fetch_add(range.end - range.start, Relaxed);
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
        Box::pin(async move { Ok(self.0[start..end].to_vec()) })
    }
}

#[test]
fn selections_fetch_the_blocks_with_their_elements() {
    const ROWS: u64 = 4000;
    const COLUMNS: u64 = 500;
    let weights = Rng(41).bf16_weights(2_000_000);
    let mut tuned = weights.clone();
    let low_bytes = tuned.iter_mut().step_by(2);
    for (byte, change) in low_bytes.zip(Rng(43).bytes(2_000_000)) {
        *byte = byte.wrapping_add(change & 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, bytes) in [("old", weights), ("new", tuned)] {
        let header = format!(
            r#"{{"w":{{"dtype":"BF16","shape":[{ROWS},{COLUMNS}],"data_offsets":[0,4000000]}}}}"#
        );
        std::fs::write(at(name), with_header(header, bytes)).unwrap();
    }
    let job = Job::new().engine(&native());
    let options = PackOptions::default();
    zstn::pack(&job, at("new"), at("new.zstn"), &options).unwrap();
    zstn::pack(&job, at("old"), at("old.zstn"), &options).unwrap();
    // This base has no block tables, so its tensor can only be decoded as a whole.
    let bare = PackOptions::default().integrity(false);
    zstn::pack(&job, at("old"), at("bare.zstn"), &bare).unwrap();
    let options = options.extended(true).base(at("old"));
    zstn::pack(&job, at("new"), at("new.z4dm"), &options).unwrap();

    let plain = Reader::open(at("new")).unwrap();
    let info = plain.find("w").unwrap();
    let steps = |start, step, count| Indices::Steps { start, step, count };
    let (all_rows, all_columns) = (Indices::range(0..ROWS), Indices::range(0..COLUMNS));
    // The last number is the number of blocks of 512 KiB with selected elements.
    let selections = [
        (Indices::List(vec![3, 2000, 2001]), all_columns.clone(), 2),
        (Indices::range(700..720), steps(9, 3, 100), 1),
        (Indices::range(0..0), all_columns.clone(), 0),
        (steps(ROWS - 1, -1999, 3), Indices::range(7..8), 3),
        (Indices::range(9..12), all_columns.clone(), 1),
        (all_rows.clone(), Indices::List(vec![0, 499]), 8),
        (all_rows, all_columns, 8),
    ];
    for (file, base) in [
        ("new", None),
        ("new.zstn", None),
        ("new.z4dm", Some("old.zstn")),
        ("new.z4dm", Some("old")),
        ("new.z4dm", Some("bare.zstn")),
    ] {
        let source = Counted::of(&at(file));
        block_on(async {
            let opening = Reader::options();
            let mut reader = opening.open_async_source(source.clone()).await.unwrap();
            if let Some(base) = base {
                let base = AsyncReader::open(at(base)).await.unwrap();
                reader = reader.with_base(base).await.unwrap();
            }
            for (rows, columns, blocks) in &selections {
                let selection = Selection::new(info, vec![rows.clone(), columns.clone()]).unwrap();
                let expected = plain.read_selection(&selection).unwrap();
                source.1.store(0, Relaxed);
                assert!(reader.read_selection(selection).await.unwrap() == expected);
                let (read, most) = (source.1.load(Relaxed), blocks * (512 << 10) + 70_000);
                assert!(
                    read <= most || matches!(base, Some("old" | "bare.zstn")),
                    "{file} {base:?} {rows:?} {columns:?}: {read} bytes"
                );
            }
            let other = Reader::open(checkpoint(&[("w", "U8", &[1, 2])])).unwrap();
            let wrong = Selection::ranges(other.find("w").unwrap(), &[]).unwrap();
            let refused = reader.read_selection(wrong).await.unwrap_err();
            assert!(refused.to_string().contains("shape"), "{refused}");
        });
    }
}
