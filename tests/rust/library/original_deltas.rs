//! Deltas between two files of one format that is not safetensors: they are packed, restored
//! byte for byte, and read tensor by tensor.

use std::path::PathBuf;

use tempfile::TempDir;
use zstn::{
    Job, PackOptions, PackReport, Reader, Sink, Storage, UnpackOptions, VerifyOptions, View,
};
use zstn_core::Rule;
use zstn_tests::archives::{Archive, StoredTensor, pickle};
use zstn_tests::checkpoint;
use zstn_tests::gguf::F32;
use zstn_tests::rng::Rng;

use super::original_files::{BF16, Q4_K, Q8_0, assert_same_tensors, blocks, folder, gguf, rule_of};
use super::originals::f32s;

/// Two files of one format.
pub(super) struct Pair {
    kind: &'static str,
    old: (&'static str, Vec<u8>),
    pub(super) new: (&'static str, Vec<u8>),
}

/// Returns the bytes with a small change to every fiftieth of them.
fn tuned(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().step_by(50).for_each(|byte| *byte ^= 1);
    bytes
}

/// The bytes of the tensors of a GGUF file.
pub(super) struct Weights {
    quantised: Vec<u8>,
    narrow: Vec<u8>,
    pub(super) halves: Vec<u8>,
    pub(super) norm: Vec<u8>,
}

impl Weights {
    pub(super) fn new() -> Self {
        let mut rng = Rng(21);
        Self {
            quantised: blocks(&mut rng, 8 * 64, 144),
            narrow: blocks(&mut rng, 32 * 64, 34),
            halves: rng.bf16_weights(128 * 256),
            norm: f32s(&mut rng, 64),
        }
    }

    fn tuned(&self) -> Self {
        Self {
            quantised: tuned(&self.quantised),
            narrow: tuned(&self.narrow),
            halves: tuned(&self.halves),
            norm: tuned(&self.norm),
        }
    }

    /// Returns the file. `same` is a tensor that follows the others, after `gap` bytes of
    /// another one.
    fn file(self, same: &[u8], gap: u64) -> Vec<u8> {
        let before = vec![7; usize::try_from(gap).expect("short")];
        gguf(&[
            ("norm", F32, &[64], self.norm),
            ("quantised", Q4_K, &[8 * 256, 64], self.quantised),
            ("before", F32, &[gap / 4], before),
            ("narrow", Q8_0, &[1024, 64], self.narrow),
            ("halves", BF16, &[256, 128], self.halves),
            ("same", BF16, &[256, 128], same.to_vec()),
        ])
    }
}

pub(super) fn gguf_pair(gaps: [u64; 2]) -> Pair {
    let same = Rng(22).bf16_weights(128 * 256);
    let [old, new] = [Weights::new(), Weights::new().tuned()];
    Pair {
        kind: "gguf",
        old: ("old.gguf", old.file(&same, gaps[0])),
        new: ("new.gguf", new.file(&same, gaps[1])),
    }
}

fn pytorch(weight: &[u8], bias: &[u8]) -> Vec<u8> {
    let tensor = |name, key, storage_len, shape, strides| StoredTensor {
        name,
        class: "Float",
        key,
        storage_len,
        offset: 0,
        shape,
        strides,
    };
    let pickle = pickle(&[
        tensor("weight", "0", 30_000, &[300, 100], &[100, 1]),
        tensor("bias", "1", 2000, &[2000], &[1]),
        // No view repeats elements, so the header does not list all tensors.
        tensor("expanded", "1", 2000, &[3, 2000], &[0, 1]),
    ]);
    let archive = Archive::default().aligned("m/data.pkl", &pickle);
    let archive = archive.aligned("m/data/0", weight);
    archive.aligned("m/data/1", bias).finish()
}

pub(super) fn pytorch_pair() -> Pair {
    let mut rng = Rng(23);
    let (weight, bias) = (f32s(&mut rng, 30_000), f32s(&mut rng, 2000));
    Pair {
        kind: "pytorch",
        old: ("old.pt", pytorch(&weight, &bias)),
        new: ("new.pt", pytorch(&tuned(&weight), &bias)),
    }
}

/// A folder with the files of a pair, and with `old.zstn`, the packed base.
pub(super) struct Files {
    folder: TempDir,
    old: &'static str,
    pub(super) new: &'static str,
}

impl Files {
    pub(super) fn new(pair: &Pair) -> Self {
        let files = Self {
            folder: folder(),
            old: pair.old.0,
            new: pair.new.0,
        };
        for (name, bytes) in [&pair.old, &pair.new] {
            std::fs::write(files.at(name), bytes).expect("written");
        }
        files.pack(pair.old.0, "old.zstn", &PackOptions::default());
        files
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).expect("a file")
    }

    pub(super) fn pack(&self, name: &str, packed: &str, options: &PackOptions) -> PackReport {
        let report = zstn::pack(&Job::new(), self.at(name), self.at(packed), options);
        report.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Packs the new file as the delta `new.z4dm` from `base`.
    pub(super) fn pack_delta(&self, base: &str, extended: bool) -> PackReport {
        let options = PackOptions::default().base(self.at(base));
        self.pack(self.new, "new.z4dm", &options.extended(extended))
    }

    pub(super) fn unpack(&self, delta: &str, bases: &[&str]) -> zstn::Result<Vec<u8>> {
        let options = UnpackOptions::default();
        let options = bases
            .iter()
            .fold(options, |options, base| options.base(self.at(base)));
        zstn::unpack(&Job::new(), self.at(delta), self.at("back"), &options)?;
        Ok(self.read("back"))
    }

    pub(super) fn open(&self, delta: &str, bases: &[&str]) -> zstn::Result<Reader> {
        let options = Reader::options();
        let options = bases
            .iter()
            .fold(options, |options, base| options.base(self.at(base)));
        options.open(self.at(delta))
    }
}

#[test]
fn a_delta_restores_its_file_and_the_tensors_are_read() {
    for pair in [gguf_pair([0, 0]), gguf_pair([8192, 12_288]), pytorch_pair()] {
        let (name, original) = &pair.new;
        let files = Files::new(&pair);
        let whole = files.pack(name, "whole.zstn", &PackOptions::default());
        let plain = Reader::open(files.at(name)).expect(name);
        let mut deltas = Vec::new();
        for (base, extended) in [(files.old, false), ("old.zstn", false), (files.old, true)] {
            let report = files.pack_delta(base, extended);
            let file = &report.files[0];
            let kind = file
                .original
                .as_ref()
                .map(|original| original.kind.as_str());
            assert_eq!(kind, Some(pair.kind));
            let Storage::Delta {
                copied, differing, ..
            } = file.storage
            else {
                panic!("{name} is stored as {:?}", file.storage);
            };
            assert!(copied > 0 && differing > 0, "{name}: {:?}", file.storage);
            let (delta, whole) = (report.packed_bytes(), whole.packed_bytes());
            assert!(delta < whole / 2, "{name}: {delta} of {whole} bytes");
            deltas.push(files.read("new.z4dm"));
            for base in [files.old, "old.zstn"] {
                let restored = files.unpack("new.z4dm", &[base]).expect(name);
                assert!(restored == *original, "{name}");
                let mut out = Vec::new();
                let options = UnpackOptions::default().base(files.at(base));
                let sink = Sink::writer(&mut out);
                zstn::unpack(&Job::new(), files.at("new.z4dm"), sink, &options).expect(name);
                assert!(out == *original, "{name}");
                let against = VerifyOptions::default().base(files.at(base));
                let against = against.original(files.at(name));
                let verified = zstn::verify(&Job::new(), files.at("new.z4dm"), &against);
                assert!(verified.expect(name).identical, "{name}");
                let reader = files.open("new.z4dm", &[base]).expect(name);
                assert_same_tensors(name, &reader, &plain);
                assert_eq!(reader.metadata(), plain.metadata(), "{name}");
                let stored = reader.tensors().iter().map(|t| t.stored_share_bytes());
                assert!(stored.sum::<u64>() <= delta, "{name}");
            }
        }
        assert!(deltas[0] == deltas[1], "{name}");
        // Without the base, and as stored, the entries of the virtual header are listed.
        let alone = Reader::open(files.at("new.z4dm")).expect(name);
        let stored = Reader::options()
            .view(View::Stored)
            .base(files.at(files.old));
        let stored = stored.open(files.at("new.z4dm")).expect(name);
        let lens = stored.tensors().iter().map(|entry| entry.len_bytes());
        assert_eq!(lens.sum::<u64>(), original.len() as u64, "{name}");
        assert!(alone.names().eq(stored.names()), "{name}");
        let first = stored.read("@bytes/0").expect(name).bytes;
        assert!(original.starts_with(&first), "{name}");
        let error = alone.read("@bytes/0").expect_err("a copy");
        assert_eq!(error.code(), "needs_base", "{error}");
    }
}

#[test]
fn deltas_of_deltas_are_restored_and_read() {
    let pair = gguf_pair([0, 0]);
    let files = Files::new(&pair);
    files.pack_delta(files.old, false);
    let newest = Weights::new().tuned().tuned();
    let newest = newest.file(&Rng(24).bf16_weights(128 * 256), 4096);
    std::fs::write(files.at("newest.gguf"), &newest).expect("written");
    let options = PackOptions::default().base(files.at("new.z4dm"));
    let options = options.base(files.at("old.zstn"));
    files.pack("newest.gguf", "newest.z4dm", &options);
    let plain = Reader::open(files.at("newest.gguf")).expect("opened");
    let unpacked = files.unpack("newest.z4dm", &["new.z4dm", files.old]);
    assert!(unpacked.expect("restored") == newest);
    for bases in [&["new.z4dm", "old.zstn"][..], &["new.gguf"]] {
        let reader = files.open("newest.z4dm", bases).expect("opened");
        assert_same_tensors("newest", &reader, &plain);
    }
    let error = files
        .open("newest.z4dm", &["new.z4dm"])
        .map(drop)
        .unwrap_err();
    assert_eq!(error.code(), "needs_base", "{error}");
}

#[test]
fn a_tensor_larger_than_the_memory_gives_the_same_delta() {
    let bytes = blocks(&mut Rng(25), 12_000 * 32, 34);
    let file = |bytes| gguf(&[("large", Q8_0, &[1024, 12_000], bytes)]);
    let files = Files::new(&Pair {
        kind: "gguf",
        old: ("old.gguf", file(bytes.clone())),
        new: ("new.gguf", file(tuned(&bytes))),
    });
    files.pack_delta(files.old, false);
    let delta = files.read("new.z4dm");
    let options = PackOptions::default().base(files.at(files.old));
    let job = Job::new().memory_bytes(64 << 20);
    zstn::pack(&job, files.at("new.gguf"), files.at("new.z4dm"), &options).expect("packed");
    assert!(files.read("new.z4dm") == delta);
    let restored = files.unpack("new.z4dm", &[files.old]).expect("restored");
    assert!(restored == files.read("new.gguf"));
}

#[test]
fn other_bases_are_refused() {
    let pair = gguf_pair([0, 0]);
    let files = Files::new(&pair);
    files.pack_delta(files.old, false);
    let same = Rng(26).bf16_weights(128 * 256);
    std::fs::write(
        files.at("other.gguf"),
        Weights::new().tuned().file(&same, 0),
    )
    .expect("written");
    std::fs::write(files.at("longer.gguf"), Weights::new().file(&same, 4096)).expect("written");
    std::fs::write(files.at("notes.txt"), "some notes").expect("written");
    let plain = checkpoint(&[("same", "F32", &[1, 2, 3, 4])]);
    std::fs::write(files.at("model.safetensors"), plain).expect("written");
    for base in ["other.gguf", "longer.gguf"] {
        let error = files.unpack("new.z4dm", &[base]).expect_err(base);
        assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
    }
    let error = files
        .open("new.z4dm", &["longer.gguf"])
        .map(drop)
        .expect_err("too long");
    assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
    let error = files
        .open("new.z4dm", &["other.gguf"])
        .map(drop)
        .expect_err("other bytes");
    assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
    let stored = Reader::options()
        .view(View::Stored)
        .base(files.at("other.gguf"));
    let reader = stored
        .open(files.at("new.z4dm"))
        .expect("a base of this length");
    for tensor in ["halves", "same"] {
        let error = reader.read(tensor).expect_err(tensor);
        assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
    }
    for (name, base, sentence) in [
        (
            "model.safetensors",
            "old.gguf",
            "cannot be the base of a safetensors file",
        ),
        (
            "model.safetensors",
            "old.zstn",
            "cannot be the base of a safetensors file",
        ),
        ("notes.txt", "old.gguf", "packed as bytes"),
    ] {
        let options = PackOptions::default().base(files.at(base));
        let packed = zstn::pack(&Job::new(), files.at(name), files.at("x.z4dm"), &options);
        let error = packed.expect_err(name);
        assert_eq!(error.code(), "usage", "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(!files.at("x.z4dm").exists());
    }
    let options = UnpackOptions::default().base(files.at(files.old));
    let unpacked = zstn::unpack(
        &Job::new(),
        files.at("new.z4dm"),
        files.at("x.safetensors"),
        &options,
    );
    let error = unpacked.expect_err("another format");
    assert!(error.to_string().contains("not safetensors"), "{error}");
    assert!(!files.at("x.safetensors").exists());
}

#[test]
fn damaged_references_are_refused() {
    let files = Files::new(&gguf_pair([0, 0]));
    files.pack_delta(files.old, false);
    let delta = files.read("new.z4dm");
    let tag = delta
        .windows(4)
        .rposition(|window| window == b"REFS")
        .expect("references");
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut delta = delta.clone();
        change(&mut delta);
        std::fs::write(files.at("damaged.z4dm"), delta).expect("written");
        let unpacked = files
            .unpack("damaged.z4dm", &[files.old])
            .expect_err("damaged");
        let opened = files.open("damaged.z4dm", &[files.old]);
        let opened = opened.map(drop).expect_err("damaged");
        (rule_of(&unpacked), rule_of(&opened))
    };
    let both = |rule| (Some(rule), Some(rule));
    // The first value is the length of the base, and the others are offsets.
    let value = tag + 12;
    assert_eq!(
        changed(&|delta| delta[value] ^= 1),
        both(Rule::DeltaReference)
    );
    assert_eq!(
        changed(&|delta| delta[value + 8] ^= 1),
        both(Rule::DeltaReference)
    );
    let far = |delta: &mut Vec<u8>| delta[value + 15] = 0xff;
    assert_eq!(changed(&far), both(Rule::DeltaBaseTensor));
    // One offset is missing, and all lengths agree.
    let shorter = |delta: &mut Vec<u8>| {
        let end = delta.len() - 16;
        delta.drain(end - 8..end);
        let len = (end - 8 - value) as u64;
        delta[tag + 4..value].copy_from_slice(&len.to_le_bytes());
        let at = delta.len() - 16;
        let fields: [u8; 8] = delta[at..at + 8].try_into().expect("eight bytes");
        let fields = u64::from_le_bytes(fields) - 8;
        delta[at..at + 8].copy_from_slice(&fields.to_le_bytes());
    };
    assert_eq!(changed(&shorter), both(Rule::DeltaSeal));
    // Without the references, the delta restores a safetensors file from one.
    let mut renamed = delta.clone();
    renamed[tag] = b'X';
    std::fs::write(files.at("damaged.z4dm"), renamed).expect("written");
    assert!(files.unpack("damaged.z4dm", &[files.old]).is_err());
    assert!(files.open("damaged.z4dm", &[files.old]).is_err());
}
