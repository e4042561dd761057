//! Families of checkpoints: sketches, the bytes that are read to make them, and the
//! sizes estimated from them.

mod chains;
mod choosing;
mod forms;

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tempfile::TempDir;
use zstn::family::{self, BaseChoice, Digests, FamilyOptions, Sketch, SketchOptions};
use zstn::{Engine, Input, Job, PackOptions, Source};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, gguf};

fn engine() -> Engine {
    Engine::new(2).unwrap()
}

fn job() -> Job<'static> {
    Job::new().engine(&engine())
}

/// The weights of a model: an embedding, matrices and small vectors.
#[derive(Clone)]
struct Weights(Vec<(String, Vec<f32>)>);

impl Weights {
    #[allow(clippy::cast_possible_truncation)]
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let lens = [120_000, 40_000, 300, 40_000, 300, 90_000];
        let tensors = lens.iter().enumerate().map(|(number, &len)| {
            let deviation = 0.02 * (number + 1) as f64;
            let values = (0..len).map(|_| rng.normal(deviation) as f32);
            (format!("layer.{number}.weight"), values.collect())
        });
        Self(tensors.collect())
    }

    /// Changes a `share` of the weights by `size`, relative to their magnitude, as
    /// tuning does.
    #[allow(clippy::cast_possible_truncation)]
    fn tuned(&self, seed: u64, share: f64, size: f64) -> Self {
        let mut rng = Rng(seed);
        let mut tuned = self.clone();
        for (number, (_, values)) in tuned.0.iter_mut().enumerate() {
            let change = 0.02 * (number + 1) as f64 * size;
            for value in values {
                if rng.unit() < share {
                    *value += rng.normal(change) as f32;
                }
            }
        }
        tuned
    }

    /// Returns the weights under names that have nothing in common with the others.
    fn renamed(&self) -> Self {
        let tensors = self.0.iter().enumerate();
        let tensors =
            tensors.map(|(number, (_, values))| (format!("blk/{number}"), values.clone()));
        Self(tensors.collect())
    }

    /// Returns a safetensors file with the weights in this dtype.
    fn file(&self, dtype: &str) -> Vec<u8> {
        let bytes = |values: &Vec<f32>| -> Vec<u8> {
            let values = values.iter().copied();
            match dtype {
                "F32" => values.flat_map(f32::to_le_bytes).collect(),
                "F16" => values
                    .flat_map(|v| half::f16::from_f32(v).to_le_bytes())
                    .collect(),
                _ => values
                    .flat_map(|v| half::bf16::from_f32(v).to_le_bytes())
                    .collect(),
            }
        };
        let tensors: Vec<_> = self.0.iter().map(|(name, v)| (name, bytes(v))).collect();
        let tensors = tensors
            .iter()
            .map(|(name, bytes)| (name.as_str(), dtype, &bytes[..]));
        checkpoint(&tensors.collect::<Vec<_>>())
    }

    /// Returns a GGUF file with the weights in F32.
    fn gguf(&self) -> Vec<u8> {
        let lens = self.0.iter().map(|(_, values)| [values.len() as u64]);
        let lens: Vec<_> = lens.collect();
        let tensors = self.0.iter().zip(&lens).map(|((name, values), len)| {
            let bytes = values.iter().copied().flat_map(f32::to_le_bytes).collect();
            (name.as_str(), gguf::F32, &len[..], bytes)
        });
        gguf::file(&[], &tensors.collect::<Vec<_>>())
    }
}

/// A temporary folder for inputs, with a family in `models`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("models")).unwrap();
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.at(name), bytes).unwrap();
    }

    fn choose(&self, input: &str) -> BaseChoice {
        self.choose_with(input, &FamilyOptions::default()).unwrap()
    }

    fn choose_with(&self, input: &str, options: &FamilyOptions) -> zstn::Result<BaseChoice> {
        family::choose(&job(), self.at(input), self.at("models"), options)
    }

    /// Packs `input` against the chosen base, and returns the packed length.
    fn pack(&self, input: &str, output: &str, choice: &BaseChoice) -> u64 {
        let options = choice.add_to(PackOptions::default());
        let report = zstn::pack(&job(), self.at(input), self.at(output), &options);
        report.unwrap().packed_bytes()
    }

    /// Writes the sketch of a family member to the same folder.
    fn sketch(&self, name: &str, bases: &[&str]) {
        let options = bases
            .iter()
            .fold(SketchOptions::default(), |options, base| {
                options.base(self.at(base))
            });
        let sketch = family::sketch(&job(), self.at(name), &options).unwrap();
        let file = sketch.to_bytes(&engine());
        std::fs::write(self.at(name).with_extension("sketch"), file).unwrap();
    }
}

fn base_of(choice: &BaseChoice) -> Option<&str> {
    choice.base.as_ref().map(|base| base.name.as_str())
}

fn sketch_of(path: &Path) -> Sketch {
    family::sketch(&job(), path, &SketchOptions::default()).unwrap()
}

/// A remote file that counts the requested bytes and the requests.
#[derive(Default)]
struct Remote {
    bytes: Vec<u8>,
    read: AtomicU64,
    requests: AtomicU64,
}

struct Handle(Arc<Remote>);

impl Source for Handle {
    fn name(&self) -> &str {
        "remote"
    }

    fn len_bytes(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        self.0.requests.fetch_add(1, Relaxed);
        self.0.read.fetch_add(range.end - range.start, Relaxed);
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.0.bytes, range)))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

fn remote(bytes: Vec<u8>) -> (Arc<Remote>, Input) {
    let remote = Arc::new(Remote {
        bytes,
        ..Remote::default()
    });
    (remote.clone(), Input::source(Handle(remote)))
}

#[test]
fn every_form_of_a_checkpoint_has_one_sketch() {
    let folder = Folder::new();
    let weights = Weights::new(1);
    folder.write(
        "base.safetensors",
        &Weights::new(1).tuned(5, 0.1, 0.1).file("BF16"),
    );
    folder.write("m.safetensors", &weights.file("BF16"));
    let options = PackOptions::default();
    zstn::pack(
        &job(),
        folder.at("m.safetensors"),
        folder.at("m.zstn"),
        &options,
    )
    .unwrap();
    let options = PackOptions::default().integrity(false);
    zstn::pack(
        &job(),
        folder.at("m.safetensors"),
        folder.at("bare.zstn"),
        &options,
    )
    .unwrap();
    let options = PackOptions::default().base(folder.at("base.safetensors"));
    zstn::pack(
        &job(),
        folder.at("m.safetensors"),
        folder.at("m.z4dm"),
        &options,
    )
    .unwrap();
    let sketch = sketch_of(&folder.at("m.safetensors"));
    assert!(sketch.identity().is_some() && sketch.base().is_none());
    for form in ["m.zstn", "bare.zstn"] {
        assert_eq!(sketch_of(&folder.at(form)), sketch, "{form}");
    }
    let options = SketchOptions::default().base(folder.at("base.safetensors"));
    let delta = family::sketch(&job(), folder.at("m.z4dm"), &options).unwrap();
    assert_eq!(delta.tensors(), sketch.tensors());
    assert_eq!(delta.identity(), sketch.identity());
    assert_eq!(
        delta.base(),
        sketch_of(&folder.at("base.safetensors")).identity()
    );
    let error = family::sketch(&job(), folder.at("m.z4dm"), &SketchOptions::default());
    assert!(matches!(error, Err(zstn::Error::NeedsBase { .. })));
}

#[test]
fn of_remote_files_only_samples_are_read() {
    let bytes = Rng(4).bf16_weights(8 << 20);
    let small = Rng(5).bf16_weights(500);
    let file = checkpoint(&[("big", "BF16", &bytes), ("small", "BF16", &small)]);
    let local = family::sketch(
        &job(),
        Input::bytes("m", file.clone()),
        &SketchOptions::default(),
    );
    let local = local.unwrap();
    let (counted, input) = remote(file.clone());
    let sketch = family::sketch(&job(), input, &SketchOptions::default()).unwrap();
    assert!(
        counted.read.load(Relaxed) < 60_000,
        "{}",
        counted.read.load(Relaxed)
    );
    assert_eq!(sketch.identity(), None);
    let samples = |sketch: &Sketch| -> Vec<Vec<u8>> {
        sketch
            .tensors()
            .iter()
            .map(|t| t.samples().to_vec())
            .collect()
    };
    assert_eq!(samples(&sketch), samples(&local));
    // The whole file is read if digests are requested.
    let options = SketchOptions::default().digests(Digests::All);
    let (counted, input) = remote(file.clone());
    assert_eq!(family::sketch(&job(), input, &options).unwrap(), local);
    assert!(counted.read.load(Relaxed) >= bytes.len() as u64);
    // A packed file already contains digests, and only some of its blocks are read.
    let mut packed = Vec::new();
    let options = PackOptions::default();
    zstn::pack(
        &job(),
        Input::bytes("m", file),
        zstn::Sink::writer(&mut packed),
        &options,
    )
    .unwrap();
    let len = packed.len() as u64;
    let (counted, input) = remote(packed);
    let sketch = family::sketch(&job(), input, &SketchOptions::default()).unwrap();
    assert_eq!(sketch, local);
    assert!(
        counted.read.load(Relaxed) < len / 3,
        "{}",
        counted.read.load(Relaxed)
    );
    assert!(counted.requests.load(Relaxed) < 40);
}

#[test]
fn threads_do_not_matter() {
    let file = Weights::new(8).file("F32");
    let sketches = [1, 4].map(|threads| {
        let engine = Engine::new(threads).unwrap();
        let input = Input::bytes("m", file.clone());
        let sketch = family::sketch(
            &Job::new().engine(&engine),
            input,
            &SketchOptions::default(),
        );
        sketch.unwrap().to_bytes(&engine)
    });
    assert!(sketches[0] == sketches[1]);
}

/// Largest accepted error of an estimate, in percent of the packed size.
const TOLERANCE_PERCENT: u64 = 25;
/// Largest accepted error in percent of the original size, for pairs with few changes:
/// the samples of such a small model contain few of them or none.
const FEW_CHANGES_PERCENT: u64 = 2;

#[test]
fn estimates_are_near_the_outcome() {
    let base = Weights::new(1);
    for dtype in ["BF16", "F16", "F32"] {
        for (share, size) in [
            (0.02, 0.01),
            (0.2, 0.01),
            (1.0, 0.001),
            (1.0, 0.02),
            (1.0, 0.2),
        ] {
            let folder = Folder::new();
            folder.write("models/base.safetensors", &base.file(dtype));
            folder.write("new.safetensors", &base.tuned(2, share, size).file(dtype));
            let choice = folder.choose("new.safetensors");
            let pair = format!("{dtype}, {share} of the weights by {size}");
            let near = |packed: u64, expected: u64| {
                let most = packed * TOLERANCE_PERCENT / 100;
                let most = most.max(choice.original_bytes * FEW_CHANGES_PERCENT / 100);
                assert!(
                    packed.abs_diff(expected) <= most,
                    "{pair}: {packed}, {expected}"
                );
            };
            let plain = PackOptions::default();
            let plain = zstn::pack(&job(), folder.at("new.safetensors"), folder.at("p"), &plain);
            near(plain.unwrap().packed_bytes(), choice.plain.packed_bytes);
            let packed = folder.pack("new.safetensors", "d", &choice);
            match &choice.base {
                Some(base) => near(packed, base.estimate.packed_bytes),
                // No base is chosen only if nearly all bits differ.
                None => assert!(size > 0.1, "{pair}"),
            }
        }
    }
}

#[test]
fn extended_frames_are_expected_to_be_smaller() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/base.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &base.tuned(2, 1.0, 0.02).file("BF16"));
    let plain = folder.choose("new.safetensors").base.unwrap().estimate;
    let options = FamilyOptions::default().extended(true);
    let extended = folder.choose_with("new.safetensors", &options).unwrap();
    let extended = extended.base.unwrap().estimate;
    assert!(extended.packed_bytes < plain.packed_bytes * 19 / 20);
    assert_eq!(extended.differing_tensors, plain.differing_tensors);
}

#[test]
fn unchanged_tensors_cost_next_to_nothing() {
    let folder = Folder::new();
    let base = Weights::new(1);
    let mut frozen = base.tuned(2, 1.0, 0.05);
    frozen.0[..5].clone_from_slice(&base.0[..5]);
    folder.write("models/base.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &frozen.file("BF16"));
    let choice = folder.choose("new.safetensors");
    let estimate = choice.base.as_ref().unwrap().estimate;
    assert_eq!((estimate.equal_tensors, estimate.differing_tensors), (5, 1));
    let packed = folder.pack("new.safetensors", "d", &choice);
    assert!(packed.abs_diff(estimate.packed_bytes) < packed / 5);
}

#[test]
fn sketches_are_small() {
    let folder = Folder::new();
    for (dtype, most) in [("BF16", 400), ("F32", 900)] {
        folder.write("m.safetensors", &Weights::new(1).file(dtype));
        let sketch = sketch_of(&folder.at("m.safetensors"));
        let len = sketch.to_bytes(&engine()).len();
        assert!(len / sketch.tensors().len() < most, "{dtype}: {len}");
    }
}
