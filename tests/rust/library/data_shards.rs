//! zTensor 2 files whose tensors are stored in other files (docs/formats/ztensor.md 8.4).

use std::path::PathBuf;

use zstn::{Error, Job, Reader, VerifyOptions};
use zstn_core::Rule;
use zstn_core::container::zstn::integrity::checksum;
use zstn_tests::ztensor2::{data_shard, file, map, number, part, tensor, text};

/// A folder with `m.zt`, which lists tensors of its own and of its shard `m-far.zt`.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let shard = data_shard(&[b"abcd", b"\0\x01\0\0"]);
        let far = |page, dtype| part(page, dtype, 4, &[("shard", text("far"))]);
        let far_rows = [
            ("values", part(1, "u8", 1, &[])),
            ("indices", far(1, "u32")),
            ("indptr", part(2, "u32", 8, &[])),
        ];
        let tensors = [
            ("a.far", tensor(&[2, 2], "dense", &[("data", far(0, "u8"))])),
            (
                "b.near",
                tensor(&[2], "dense", &[("data", part(0, "u8", 2, &[]))]),
            ),
            ("c.tied", tensor(&[1], "dense", &[("data", far(0, "f32"))])),
            ("d.both", tensor(&[1, 9], "zt.sparse_csr/1", &far_rows)),
        ];
        let entry = map(&[
            ("size", number(shard.len())),
            (
                "digest",
                text(&format!("xxh3:{:016x}", checksum([&shard[..]]))),
            ),
        ]);
        let root = [
            ("objects", map(&tensors)),
            ("shards", map(&[("far", entry)])),
        ];
        files.write(
            "m.zt",
            &file(&root, &[b"xy", b"z", &[0, 0, 0, 0, 1, 0, 0, 0]]),
        );
        files.write("m-far.zt", &shard);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    fn shard(&self) -> Vec<u8> {
        std::fs::read(self.path("m-far.zt")).expect("a shard")
    }

    fn open(&self) -> Reader {
        Reader::open(self.path("m.zt")).expect("opens without its shard")
    }

    fn verify(&self) -> Result<(), Error> {
        zstn::verify(&Job::new(), self.path("m.zt"), &VerifyOptions::default()).map(drop)
    }
}

fn rule(error: &Error) -> Option<Rule> {
    match error {
        Error::Format { source, .. } => source.rule(),
        _ => None,
    }
}

#[test]
fn tensors_of_a_shard_are_read_when_it_is_there() {
    let files = Files::new();
    let reader = files.open();
    assert_eq!(
        reader.names().collect::<Vec<_>>(),
        ["b.near", "a.far", "c.tied"]
    );
    assert_eq!(reader.read("b.near").expect("local").bytes, b"xy");
    assert_eq!(reader.read("a.far").expect("in the shard").bytes, b"abcd");
    assert_eq!(reader.read_rows("a.far", 1..2).expect("a row").bytes, b"cd");
    assert_eq!(reader.read("c.tied").expect("in the shard").bytes, b"abcd");
    let (name, reason) = reader.model().refused().next().expect("one tensor");
    assert_eq!(name, "d.both");
    assert!(reason.to_string().contains("several files"), "{reason}");
}

#[test]
fn a_missing_shard_does_not_hide_other_tensors() {
    let files = Files::new();
    std::fs::remove_file(files.path("m-far.zt")).expect("removed");
    let reader = files.open();
    assert_eq!(reader.names().count(), 3);
    assert_eq!(reader.read("b.near").expect("local").bytes, b"xy");
    let error = reader.read("a.far").expect_err("missing");
    assert!(error.to_string().contains("m-far.zt"), "{error}");
    // The shard is found once it is there.
    files.write("m-far.zt", &Files::new().shard());
    assert_eq!(reader.read("a.far").expect("there").bytes, b"abcd");
}

#[test]
fn another_file_is_not_taken_for_the_shard() {
    let files = Files::new();
    let shard = files.shard();
    let cases: [(Vec<u8>, Rule); 4] = [
        ([&shard[..], b"x"].concat(), Rule::ZTensorShard),
        (shard[1..].to_vec(), Rule::ZTensorShard),
        ([b"x", &shard[1..]].concat(), Rule::ZTensorMagic),
        (
            [&shard[..shard.len() - 1], b"x"].concat(),
            Rule::ZTensorFooter,
        ),
    ];
    for (bytes, expected) in cases {
        files.write("m-far.zt", &bytes);
        let error = files.open().read("a.far").expect_err("another file");
        assert_eq!(rule(&error), Some(expected), "{error}");
    }
}

#[test]
fn verifying_compares_the_digest_of_the_shard() {
    let files = Files::new();
    // A tensor with parts in several files cannot be read, so nothing is verified.
    let error = files.verify().expect_err("a tensor that cannot be read");
    assert!(error.to_string().contains("d.both"), "{error}");
    let shard = files.shard();
    let entry = map(&[
        ("size", number(shard.len())),
        (
            "digest",
            text(&format!("xxh3:{:016x}", checksum([&shard[..]]))),
        ),
    ]);
    let far = part(0, "u8", 4, &[("shard", text("far"))]);
    let root = [
        (
            "objects",
            map(&[("t", tensor(&[4], "dense", &[("data", far)]))]),
        ),
        ("shards", map(&[("far", entry)])),
    ];
    files.write("m.zt", &file(&root, &[]));
    files.verify().expect("in order");
    // A byte that no tensor covers.
    let mut damaged = shard;
    damaged[9000] ^= 1;
    files.write("m-far.zt", &damaged);
    assert_eq!(files.open().read("t").expect("not covered").bytes, b"abcd");
    let error = files.verify().expect_err("damaged");
    assert_eq!(rule(&error), Some(Rule::ZTensorShard), "{error}");
}
