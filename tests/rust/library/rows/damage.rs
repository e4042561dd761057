//! Reading rows of damaged and of changed files.

use std::cell::RefCell;

use zstn::{Error, Job, Reader};
use zstn_core::bytes::index;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::rng::Rng;

use super::watched::{Watched, checkpoint, native, with_record};

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
