//! The reader: buffers of the caller, and files that are truncated while they are open.
//! This process installs no signal handler.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use zstn::{Engine, Error, Job, PackOptions, Reader, View};
use zstn_core::ErrorKind;
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoint;
use zstn_tests::foreign::{GOOD, model_folder};
use zstn_tests::rng::Rng;

/// Reads every tensor into a buffer, individually and all together. Returns the number
/// of tensors.
fn compare(reader: &Reader) -> usize {
    let names: Vec<&str> = reader.names().collect();
    let read = names
        .iter()
        .map(|name| reader.read(name).expect(name).bytes);
    let read: Vec<Vec<u8>> = read.collect();
    let mut together: Vec<Vec<u8>> = read.iter().map(|bytes| vec![0xa5; bytes.len()]).collect();
    let outs = together.iter_mut().map(Vec::as_mut_slice);
    // The request order is reversed; the reader reads in the order of the data.
    let wanted = names.iter().copied().zip(outs).rev().collect();
    let read_together = reader.read_many_into(wanted, &());
    read_together.unwrap_or_else(|error| panic!("{}: {error}", reader.name()));
    for ((name, bytes), together) in names.iter().zip(&read).zip(&together) {
        let mut out = vec![0xa5; bytes.len()];
        reader.read_into(name, &mut out).expect(name);
        assert!(out == *bytes, "{}: {name} differs", reader.name());
        assert!(together == bytes, "{}: {name} differs", reader.name());
    }
    names.len()
}

#[test]
fn tensors_of_any_file_are_read_into_a_buffer() {
    for (folder, ending) in [
        ("zstn", "zstn"),
        ("zstn", "safetensors"),
        ("ztensor", "zt"),
        ("gauss", "gauss"),
        ("gguf", "gguf"),
        ("onnx", "onnx"),
        ("pytorch", "pt"),
    ] {
        let mut count = 0;
        for entry in fs::read_dir(cases::path(folder)).expect("vectors") {
            let path = entry.expect("an entry").path();
            let is_wanted = path.extension().is_some_and(|e| e == ending);
            if let Some(reader) = is_wanted.then(|| Reader::open(&path).ok()).flatten() {
                count += compare(&reader);
            }
        }
        assert!(count > 40, "{count} tensors in .{ending} files");
    }
    let folder = model_folder(GOOD, "nvfp4_g16");
    assert!(compare(&Reader::open(folder.path()).expect("a model")) > 0);
}

#[test]
fn tensors_of_deltas_are_read_into_a_buffer() {
    let mut count = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let path = |entry: &str| cases::path("zstn").join(text(&case[entry]["file"]));
        let options = Reader::options().base(path("base"));
        if let Ok(reader) = options.open(path("container")) {
            count += compare(&reader);
        }
    }
    assert!(count > 40, "{count} tensors");
}

/// A folder with a checkpoint and a fine-tune of it, both plain and packed.
struct Scratch {
    folder: tempfile::TempDir,
}

const TENSOR_BYTES: usize = 300_000;

impl Scratch {
    fn new() -> Self {
        let scratch = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let job = Job::new().engine(&Engine::new(1).unwrap());
        let weights = Rng(9).bf16_weights(TENSOR_BYTES);
        let (a, b) = (&weights[..TENSOR_BYTES], &weights[2..][..TENSOR_BYTES]);
        let mut plain = checkpoint(&[("a", "BF16", a), ("b", "BF16", b)]);
        fs::write(scratch.at("m.safetensors"), &plain).unwrap();
        let last = plain.len() - 2;
        plain[last] ^= 1;
        fs::write(scratch.at("tuned.safetensors"), &plain).unwrap();
        let [from, to] = ["m.safetensors", "m.zstn"].map(|name| scratch.at(name));
        zstn::pack(&job, from, to, &PackOptions::default()).unwrap();
        let options = PackOptions::default().base(scratch.at("m.safetensors"));
        let [tuned, delta] = ["tuned.safetensors", "tuned.z4dm"].map(|name| scratch.at(name));
        zstn::pack(&job, tuned, delta, &options).unwrap();
        scratch
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, name: &str) -> Reader {
        Reader::open(self.at(name)).unwrap()
    }

    fn delta(&self) -> Reader {
        let options = Reader::options().base(self.at("m.zstn"));
        options.open(self.at("tuned.z4dm")).unwrap()
    }
}

fn cut(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(5000).unwrap();
}

#[test]
fn a_file_that_is_cut_short_under_a_reader_is_an_error() {
    type Open = fn(&Scratch) -> Reader;
    let cases: [(&str, Open); 4] = [
        ("m.safetensors", |scratch| scratch.open("m.safetensors")),
        ("m.zstn", |scratch| scratch.open("m.zstn")),
        ("tuned.z4dm", Scratch::delta),
        ("m.zstn", Scratch::delta),
    ];
    for (name, open) in cases {
        let scratch = Scratch::new();
        let path = scratch.at(name);
        let reader = open(&scratch);
        reader.read("b").unwrap();
        cut(&path);
        let results = [
            reader.read("b").map(drop),
            reader.read_rows("b", 100_000..100_003).map(drop),
            reader.read_into("b", &mut vec![0; TENSOR_BYTES]),
            reader.read_many_into(vec![("b", &mut vec![0; TENSOR_BYTES])], &()),
        ];
        for result in results {
            match result {
                Err(Error::Changed { name, .. }) => assert_eq!(name, path.display().to_string()),
                other => panic!("{name}: {other:?}"),
            }
        }
        // Opening the truncated file again either fails or leads to an error on
        // reading.
        if let Ok(reader) = Reader::open(&path) {
            assert!(reader.read("b").is_err(), "{name}");
        }
    }
}

#[test]
fn a_buffer_of_another_length_is_refused() {
    let scratch = Scratch::new();
    let readers = [
        scratch.open("m.safetensors"),
        scratch.open("m.zstn"),
        scratch.delta(),
    ];
    for reader in readers {
        for len in [0, TENSOR_BYTES - 1, TENSOR_BYTES + 1] {
            let mut out = vec![0xa5; len];
            let error = reader.read_into("a", &mut out).unwrap_err();
            let refusal = error.refusal().expect("a refusal");
            assert_eq!(refusal.kind(), ErrorKind::InvalidInput);
            assert_eq!(refusal.tensor_name(), Some("a"));
            let message = error.to_string();
            assert!(message.contains(&TENSOR_BYTES.to_string()), "{message}");
            assert!(message.contains(&len.to_string()), "{message}");
            assert!(out.iter().all(|&byte| byte == 0xa5));
        }
        let mut out = [0; 3];
        let wanted: Vec<(&str, &mut [u8])> = vec![("a", &mut out)];
        let error = reader.read_many_into(wanted, &()).unwrap_err();
        assert_eq!(error.refusal().unwrap().kind(), ErrorKind::InvalidInput);
        let error = reader.read_into("c", &mut []).unwrap_err();
        assert_eq!(error.refusal().unwrap().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn clones_of_a_reader_are_used_by_many_threads() {
    let scratch = Scratch::new();
    let reader = scratch.delta();
    let expected = reader.read("b").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (reader, expected) = (reader.clone(), &expected);
            scope.spawn(move || assert!(reader.read("b").unwrap() == *expected));
        }
    });
}

#[test]
fn a_base_is_given_to_a_delta_and_to_no_other_file() {
    let scratch = Scratch::new();
    let options = Reader::options().base(scratch.at("m.zstn"));
    let tuned = scratch.open("tuned.safetensors").read("b").unwrap();
    let delta = options.open(scratch.at("tuned.z4dm")).unwrap();
    assert!(delta.read("b").unwrap() == tuned);
    assert!(matches!(
        options.open(scratch.at("m.zstn")),
        Err(Error::Usage(_))
    ));
    let without = scratch.open("tuned.z4dm");
    assert!(matches!(without.read("b"), Err(Error::NeedsBase { .. })));
}

#[test]
fn weights_in_parts_are_read_as_stored_if_asked_for() {
    let folder = model_folder(GOOD, "nvfp4_g16");
    let options = Reader::options();
    let dense = options.open(folder.path()).unwrap();
    let stored = options.view(View::Stored).open(folder.path()).unwrap();
    let plain = Reader::open(cases::path(GOOD).join("nvfp4_g16.safetensors")).unwrap();
    assert!(stored.names().eq(plain.names()));
    assert!(!dense.names().eq(plain.names()));
}
