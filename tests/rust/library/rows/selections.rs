//! Selected elements: the blocks that a selection reads, and the blocks that a reader
//! keeps for the next one.

use zstn::{Error, Indices, Reader, Selection};
use zstn_core::bytes::index;
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::container::zstn::pack;
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoints;
use zstn_tests::rng::Rng;

use super::differences::{COLUMNS, Checkpoints, ROWS, packed};
use super::{Watched, checkpoint, native, total};

fn rows(reader: &Reader, name: &str, rows: &[u64]) -> zstn::Result<Vec<u8>> {
    let tensor = reader.find(name)?;
    let columns = Indices::range(0..tensor.shape[1]);
    let selection = Selection::new(tensor, vec![Indices::List(rows.to_vec()), columns])?;
    Ok(reader.read_selection(&selection)?.bytes)
}

fn expected(tensor: &[u8], row_bytes: usize, rows: &[u64]) -> Vec<u8> {
    let row = |row: &u64| &tensor[index(*row) * row_bytes..][..row_bytes];
    rows.iter().flat_map(row).copied().collect()
}

#[test]
fn each_block_is_read_once_and_used_again() {
    let tensor = Rng(3).bf16_weights(4_000_000);
    let file = checkpoint("BF16", 8000, 500, &tensor);
    let watched = Watched::new(pack(&native(), &file, Effort::Balanced).expect("packs"));
    let reader = watched.open().expect("opens");
    watched.reads();
    let far = [7, 4100, 4110, 7999];
    assert!(rows(&reader, "w", &far).expect("reads") == expected(&tensor, 1000, &far));
    let first = total(&watched.reads());
    // Three blocks of each plane, of the 16 that it has.
    assert!(first * 4 < tensor.len() as u64, "{first}");
    assert!(rows(&reader, "w", &far).is_ok());
    assert_eq!(total(&watched.reads()), 0);
    // Another row of the first block completes it.
    for row in [100, 500, 0] {
        assert!(rows(&reader, "w", &[row]).expect("reads") == expected(&tensor, 1000, &[row]));
    }
    let second = total(&watched.reads());
    assert!(0 < second && second < first, "{second}");
    // A selection of everything is not cached, and evicts nothing.
    let every_other: Vec<u64> = (0..4000).map(|row| 2 * row).collect();
    let read = rows(&reader, "w", &every_other).expect("reads");
    assert!(read == expected(&tensor, 1000, &every_other));
}

#[test]
fn the_cache_has_a_capacity() {
    let tensor = Rng(3).bf16_weights(20_000_000);
    let file = checkpoint("BF16", 20_000, 1000, &tensor);
    let watched = Watched::new(pack(&native(), &file, Effort::Fast).expect("packs"));
    let reader = watched.open().expect("opens");
    let ends = |start: u64| [start, start + 4000];
    for start in (0..16_000).step_by(4000) {
        let pair = ends(start);
        let columns = Indices::range(0..1000);
        let range = Indices::range(pair[0]..pair[1]);
        let tensor = reader.find("w").expect("is there");
        let selection = Selection::new(tensor, vec![range, columns]).expect("selects");
        reader.read_selection(&selection).expect("reads");
    }
    watched.reads();
    // The latest 8 MB are cached, the first 8 MB of 32 are not.
    assert!(rows(&reader, "w", &[15_000]).is_ok());
    assert_eq!(total(&watched.reads()), 0);
    assert!(rows(&reader, "w", &[1000]).is_ok());
    assert!(total(&watched.reads()) > 0);
}

#[test]
fn tensors_without_blocks_are_decoded_once() {
    let mut rng = Rng(4);
    let tensor: Vec<u8> = (0..2_000_000)
        .flat_map(|_| [0, 60 + (rng.next_u64() % 5) as u8])
        .collect();
    let file = checkpoint("BF16", 2000, 1000, &tensor);
    let watched = Watched::new(pack(&native(), &file, Effort::Balanced).expect("packs"));
    let reader = watched.open().expect("opens");
    for row in [5, 1999, 0] {
        assert!(rows(&reader, "w", &[row]).expect("reads") == expected(&tensor, 2000, &[row]));
    }
    let stored = reader.find("w").expect("is there").stored_len_bytes();
    assert!(total(&watched.reads()) < 2 * stored);
}

#[test]
fn rows_of_deltas_are_selected_too() {
    let files = Checkpoints::get();
    let expect = Watched::new(files.first.clone()).open().expect("opens");
    let base = Watched::new(packed(&files.base));
    let delta = Watched::new(files.first_delta.clone());
    let reader = delta.open().and_then(|delta| delta.with_base(base.open()?));
    let reader = reader.expect("opens");
    for name in ["changed", "copied", "merged"] {
        let tensor = expect.read(name).expect("reads").bytes;
        for list in [vec![5, 2000, ROWS as u64 - 1], vec![6, 7]] {
            let read = rows(&reader, name, &list).expect("reads");
            assert!(read == expected(&tensor, 2 * COLUMNS, &list), "{name}");
        }
    }
    let alone = delta.open().expect("opens");
    assert!(matches!(
        rows(&alone, "changed", &[5]),
        Err(Error::NeedsBase { .. })
    ));
}

#[test]
fn cached_blocks_of_a_changed_file_are_not_used() {
    let tensor = Rng(3).bf16_weights(1_000_000);
    let file = checkpoint("BF16", 1000, 1000, &tensor);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.zstn");
    let packed = pack(&native(), &file, Effort::Fast).expect("packs");
    std::fs::write(&path, &packed).expect("written");
    let on_disk = std::fs::File::options().write(true).open(&path);
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    on_disk.and_then(|f| f.set_modified(long_ago)).expect("set");
    let reader = Reader::open(&path).expect("opens");
    assert!(rows(&reader, "w", &[1, 900]).is_ok());
    std::fs::write(&path, &packed).expect("written");
    let result = rows(&reader, "w", &[1, 900]);
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
}

#[test]
fn rows_of_a_grown_tensor_are_selected_too() {
    const WIDTH: usize = 500;
    let (old_rows, new_rows) = (2000, 4000);
    let mut rng = Rng(17);
    let grown = rng.bf16_weights(new_rows * WIDTH);
    let mut old = grown[..2 * old_rows * WIDTH].to_vec();
    let low_bytes = old.iter_mut().step_by(2);
    for (byte, change) in low_bytes.zip(rng.bytes(old_rows * WIDTH)) {
        *byte = byte.wrapping_add(change & 1);
    }
    let file = |rows: usize, bytes: &[u8]| {
        let spec = |name: String, rows: usize| TensorSpec {
            name,
            dtype: Dtype::Bf16,
            shape: vec![rows as u64, WIDTH as u64],
        };
        let mut tensors = vec![(spec("w".into(), rows), bytes)];
        tensors.extend((0..8).map(|k| (spec(format!("other{k}"), 2), &bytes[..4 * WIDTH])));
        checkpoints::safetensors(tensors.iter().map(|(spec, bytes)| (spec, *bytes)))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("old"), file(old_rows, &old)).expect("written");
    std::fs::write(at("new"), file(new_rows, &grown)).expect("written");
    let job = zstn::Job::new().engine(&native());
    let options = zstn::PackOptions::default();
    zstn::pack(&job, at("old"), at("old.zstn"), &options).expect("packs");
    let options = options.extended(true).base(at("old"));
    zstn::pack(&job, at("new"), at("new.z4dm"), &options).expect("packs");
    let watched = |name: &str| Watched::new(std::fs::read(at(name)).expect("read"));
    let (base, delta) = (watched("old.zstn"), watched("new.z4dm"));
    let reader = delta.open().and_then(|delta| delta.with_base(base.open()?));
    let reader = reader.expect("opens");
    let select = |list: &[u64]| {
        delta.reads();
        let read = rows(&reader, "w", list).expect("reads");
        assert!(read == expected(&grown, 2 * WIDTH, list), "{list:?}");
        total(&delta.reads())
    };
    let stored = reader.find("w").expect("is there").stored_len_bytes();
    let near = select(&[3, 20]);
    assert!(near < stored, "{near} of {stored}");
    // The reader forgets how the tensor is stored, and keeps the block.
    for k in 0..8 {
        rows(&reader, &format!("other{k}"), &[0]).expect("reads");
    }
    // New rows are read with the whole tensor, and only once for each selection.
    let far = [2100, 2900, 3700, 3999];
    let fetched = select(&far);
    assert!(
        stored <= fetched && fetched < stored * 5 / 4,
        "{fetched} of {stored}"
    );
    assert!(select(&[5, 3999]) < stored * 5 / 4);
}
