//! Checkpoints packed against the same model in another dtype
//! (docs/formats/zstn-delta.md 9).

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use tempfile::TempDir;
use zstn::{Job, PackOptions, Reader, Storage, UnpackOptions, VerifyOptions};
use zstn_core::Rule;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

const ELEMENTS: usize = 90_000;

/// Returns weights in single precision, among them numbers that the 16-bit types can only
/// represent as infinite, subnormal or zero.
#[allow(clippy::cast_possible_truncation)]
fn weights(seed: u64) -> Vec<f32> {
    let mut rng = Rng(seed);
    let mut weights: Vec<f32> = (0..ELEMENTS).map(|_| rng.normal(0.02) as f32).collect();
    weights[..6].copy_from_slice(&[1e6, -3.4e38, 1e-7, -1e-41, -0.0, f32::INFINITY]);
    weights
}

fn bytes_of(weights: &[f32], dtype: &str) -> Vec<u8> {
    let bytes = weights.iter().map(|weight| match dtype {
        "BF16" => bf16::from_f32(*weight).to_le_bytes().to_vec(),
        "F16" => f16::from_f32(*weight).to_le_bytes().to_vec(),
        _ => weight.to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// Returns a checkpoint with most weights in this dtype, and with tensors that are the same
/// in all checkpoints of the model.
fn model(weights: &[f32], dtype: &str) -> Vec<u8> {
    let tensors = tensors(weights, dtype);
    let tensors = tensors
        .iter()
        .map(|(name, dtype, bytes)| (*name, *dtype, &**bytes));
    checkpoint(&tensors.collect::<Vec<_>>())
}

fn tensors<'a>(weights: &[f32], dtype: &'a str) -> [(&'static str, &'a str, Vec<u8>); 4] {
    let (most, norm) = weights.split_at(ELEMENTS - 300);
    let (down, up) = most.split_at(ELEMENTS / 3);
    let ids: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    [
        ("down", dtype, bytes_of(down, dtype)),
        ("ids", "I32", ids),
        ("norm", "F32", bytes_of(norm, "F32")),
        ("up", dtype, bytes_of(up, dtype)),
    ]
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Packs `name`, and returns the packed length and how the tensors are stored.
    fn pack(&self, name: &str, packed: &str, options: &PackOptions) -> (u64, Storage) {
        let report = zstn::pack(&Job::new(), self.at(name), self.at(packed), options);
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        (report.packed_bytes(), report.files[0].storage)
    }

    /// Checks that a delta restores `original`, and that its tensors and rows can be read.
    fn check(&self, delta: &str, bases: &[&Path], original: &str) {
        let delta = self.at(delta);
        let (unpacking, verifying, reading) = bases.iter().fold(
            (
                UnpackOptions::default(),
                VerifyOptions::default(),
                Reader::options(),
            ),
            |(unpacking, verifying, reading), base| {
                (
                    unpacking.base(*base),
                    verifying.base(*base),
                    reading.base(*base),
                )
            },
        );
        zstn::unpack(&Job::new(), &delta, self.at("back"), &unpacking).expect("restored");
        let same = std::fs::read(self.at("back")).expect("restored");
        assert!(same == std::fs::read(self.at(original)).expect("a file"));
        let verified = verifying.original(self.at(original));
        let verified = zstn::verify(&Job::new(), &delta, &verified).expect("verified");
        assert!(verified.identical);
        let reader = reading.clone().open(&delta).expect("opened");
        let expected = Reader::open(self.at(original)).expect("opened");
        for tensor in expected.tensors() {
            let name = &tensor.name;
            let whole = expected.read(name).expect("a tensor");
            assert_eq!(reader.read(name).expect("a tensor"), whole);
            let rows = |reader: &Reader| reader.read_rows(name, 33..247).expect("rows");
            assert_eq!(rows(&reader), rows(&expected));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let reader = reading.open_async(&delta).await.expect("opened");
            for tensor in expected.tensors() {
                let read = reader.read(&tensor.name).await.expect("a tensor");
                assert_eq!(read, expected.read(&tensor.name).expect("a tensor"));
            }
        });
    }
}

fn against(base: &Path) -> PackOptions {
    PackOptions::default().base(base).extended(true)
}

#[test]
fn rounded_weights_are_nearly_free() {
    let folder = Folder::new();
    let weights = weights(1);
    let base = folder.write("f32.safetensors", &model(&weights, "F32"));
    folder.pack("f32.safetensors", "f32.zstn", &PackOptions::default());
    for dtype in ["BF16", "F16"] {
        folder.write("new.safetensors", &model(&weights, dtype));
        let (packed, storage) = folder.pack("new.safetensors", "new.z4dm", &against(&base));
        assert!(packed < 1500, "{dtype}: {packed} bytes");
        let copied = matches!(storage, Storage::Delta { copied: 4, .. });
        assert!(copied, "{dtype}: {storage:?}");
        for base in [&base, &folder.at("f32.zstn")] {
            folder.check("new.z4dm", &[base], "new.safetensors");
        }
        // z4ai reads files without extensions, and converts nothing.
        let options = against(&base).extended(false);
        let (_, storage) = folder.pack("new.safetensors", "new.z4dm", &options);
        let whole = matches!(
            storage,
            Storage::Delta {
                whole: 2,
                copied: 2,
                ..
            }
        );
        assert!(whole, "{dtype}: {storage:?}");
    }
}

#[test]
fn a_base_of_lower_precision_predicts_the_first_bits() {
    let folder = Folder::new();
    let weights = weights(2);
    for (dtype, target, percent) in [("BF16", "F32", 65), ("F16", "F32", 60), ("BF16", "F16", 50)] {
        let base = folder.write("base.safetensors", &model(&weights, dtype));
        folder.write("new.safetensors", &model(&weights, target));
        let (whole, _) = folder.pack("new.safetensors", "new.zstn", &PackOptions::default());
        let options = against(&base).extended(true);
        let (packed, storage) = folder.pack("new.safetensors", "new.z4dm", &options);
        assert!(
            packed * 100 < whole * percent,
            "{dtype}: {packed} of {whole}"
        );
        let expected = matches!(
            storage,
            Storage::Delta {
                copied: 2,
                differing: 2,
                ..
            }
        );
        assert!(expected, "{dtype}: {storage:?}");
        folder.check("new.z4dm", &[&base], "new.safetensors");
    }
}

#[test]
fn what_is_no_number_is_restored() {
    let folder = Folder::new();
    let payload = f32::from_bits(0xffc1_2345);
    let mut weights = weights(3);
    weights[10..20].fill(payload);
    let base = folder.write("f32.safetensors", &model(&weights, "F32"));
    let mut narrow = model(&weights, "BF16");
    let header_len = u64::from_le_bytes(*narrow.first_chunk().expect("a length"));
    // Element 15 of the first tensor, with another payload than that of the base.
    let at = 8 + usize::try_from(header_len).expect("short") + 30;
    narrow[at..at + 2].copy_from_slice(&[0x12, 0xff]);
    folder.write("new.safetensors", &narrow);
    folder.pack("new.safetensors", "new.z4dm", &against(&base));
    folder.check("new.z4dm", &[&base], "new.safetensors");
}

#[test]
fn the_base_may_be_a_delta_or_have_several_files() {
    let folder = Folder::new();
    let (old, tuned) = (weights(4), {
        let mut tuned = weights(4);
        tuned
            .iter_mut()
            .skip(100)
            .step_by(20)
            .for_each(|weight| *weight *= 1.01);
        tuned
    });
    let oldest = folder.write("old.safetensors", &model(&old, "F32"));
    folder.write("tuned.safetensors", &model(&tuned, "F32"));
    folder.write("new.safetensors", &model(&tuned, "BF16"));
    folder.pack("tuned.safetensors", "tuned.z4dm", &against(&oldest));
    let base = folder.at("tuned.z4dm");
    let options = against(&base).base(&oldest);
    let (packed, _) = folder.pack("new.safetensors", "new.z4dm", &options);
    assert!(packed < 1500, "{packed}");
    folder.check("new.z4dm", &[&base, &oldest], "new.safetensors");
    // A delta against a computed base is a base.
    folder.write("newest.safetensors", &model(&old, "BF16"));
    let first = folder.at("new.z4dm");
    let options = against(&first).base(&base).base(&oldest);
    folder.pack("newest.safetensors", "newest.z4dm", &options);
    let chain = [first.as_path(), &base, &oldest];
    folder.check("newest.z4dm", &chain, "newest.safetensors");
    // The same weights in several files.
    let mut map = Vec::new();
    for (name, dtype, bytes) in tensors(&tuned, "F32") {
        folder.write(
            &format!("of-{name}.safetensors"),
            &checkpoint(&[(name, dtype, &bytes)]),
        );
        map.push(format!(r#""{name}":"of-{name}.safetensors""#));
    }
    let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
    let parts = folder.write("of.safetensors.index.json", index.as_bytes());
    folder.pack("new.safetensors", "sharded.z4dm", &against(&parts));
    for base in [&parts, &folder.at("tuned.safetensors")] {
        folder.check("sharded.z4dm", &[base], "new.safetensors");
    }
}

#[test]
fn other_bases_are_refused() {
    let folder = Folder::new();
    let base = folder.write("f32.safetensors", &model(&weights(5), "F32"));
    folder.write("new.safetensors", &model(&weights(5), "F16"));
    folder.pack("new.safetensors", "new.z4dm", &against(&base));
    let other = folder.write("other.safetensors", &model(&weights(6), "F32"));
    let halves = folder.write("halves.safetensors", &model(&weights(5), "BF16"));
    let ids = checkpoint(&[("down", "I32", &bytes_of(&weights(5)[..ELEMENTS / 3], "F32"))]);
    let ids = folder.write("ids.safetensors", &ids);
    let delta = folder.at("new.z4dm");
    for (base, rule) in [
        (&other, Rule::DeltaReference),
        (&halves, Rule::DeltaReference),
        (&ids, Rule::DeltaBaseTensor),
    ] {
        let options = UnpackOptions::default().base(base);
        let unpacked = zstn::unpack(&Job::new(), &delta, folder.at("back"), &options);
        let error = unpacked.expect_err("another base");
        assert_eq!(
            error.refusal().and_then(zstn_core::Error::rule),
            Some(rule),
            "{error}"
        );
        let read = Reader::options().base(base).open(&delta);
        let error = read
            .and_then(|reader| reader.read("down"))
            .expect_err("another base");
        assert_eq!(
            error.refusal().and_then(zstn_core::Error::rule),
            Some(rule),
            "{error}"
        );
    }
    let options = UnpackOptions::default().base(&base).base(&other);
    let unpacked = zstn::unpack(&Job::new(), &delta, folder.at("back"), &options);
    assert_eq!(unpacked.expect_err("two bases").code(), "usage");
    assert!(!folder.at("back").exists());
}

#[test]
fn files_of_which_only_some_are_converted_are_restored_one_by_one() {
    let folder = Folder::new();
    let weights = weights(8);
    let base = folder.write("f32.safetensors", &model(&weights, "F32"));
    let mut map = Vec::new();
    for (name, dtype, bytes) in tensors(&weights, "BF16") {
        let file = format!("of-{name}");
        let plain = format!("{file}.safetensors");
        folder.write(&plain, &checkpoint(&[(name, dtype, &bytes)]));
        folder.pack(&plain, &format!("{file}.z4dm"), &against(&base));
        folder.check(&format!("{file}.z4dm"), &[&base], &plain);
        map.push(format!(r#""{name}":"{file}.z4dm""#));
    }
    let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
    let index = folder.write("of.z4dm.index.json", index.as_bytes());
    let error = Reader::options().base(&base).open(&index).map(drop);
    assert_eq!(error.expect_err("a mixture").code(), "unsupported");
}

#[test]
fn a_base_that_has_most_tensors_in_the_same_dtype_is_used_as_it_is() {
    let folder = Folder::new();
    let weights = weights(7);
    let (first, second) = weights.split_at(ELEMENTS / 3);
    let mixed = |dtype: &str| {
        checkpoint(&[
            ("few", dtype, &bytes_of(first, dtype)),
            ("most", "BF16", &bytes_of(second, "BF16")),
        ])
    };
    let base = folder.write("base.safetensors", &mixed("F32"));
    folder.write("new.safetensors", &mixed("F16"));
    let (_, storage) = folder.pack("new.safetensors", "new.z4dm", &against(&base));
    let expected = matches!(
        storage,
        Storage::Delta {
            copied: 1,
            whole: 1,
            ..
        }
    );
    assert!(expected, "{storage:?}");
    folder.check("new.z4dm", &[&base], "new.safetensors");
}
