//! Families of checkpoints: sketches, and the choice of a base by sketches.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zstn::family::{self, Choice, Digests, FamilyOptions, Sketch, SketchOptions};
use zstn::{Engine, Job, PackOptions};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

mod chains;
mod choosing;
mod forms;
mod reading;
mod sizes;

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

    fn choose(&self, input: &str) -> Choice {
        self.choose_with(input, &FamilyOptions::default()).unwrap()
    }

    fn choose_with(&self, input: &str, options: &FamilyOptions) -> zstn::Result<Choice> {
        family::choose(&job(), self.at(input), self.at("models"), options)
    }

    /// Packs `input` against the chosen base, and returns the packed length.
    fn pack(&self, input: &str, output: &str, choice: &Choice) -> u64 {
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

fn base_of(choice: &Choice) -> Option<&str> {
    choice.base.as_ref().map(|base| base.name.as_str())
}

fn sketch_of(path: &Path) -> Sketch {
    family::sketch(&job(), path, &SketchOptions::default()).unwrap()
}
