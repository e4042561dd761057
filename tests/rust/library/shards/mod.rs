//! Sharded checkpoints: packing, restoring and verifying.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;
use zstn::{
    Engine, FolderReport, Job, PackOptions, PackReport, Progress, UnpackOptions, UnpackReport,
};
use zstn_core::Rule;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

mod command;
mod deltas;
mod refusals;
mod remote;
mod restore;
mod tree;

const INDEX: &str = "model.safetensors.index.json";
const FIRST: &str = "model-00001-of-00003.safetensors";
const SECOND: &str = "model-00002-of-00003.safetensors";
const THIRD: &str = "model-00003-of-00003.safetensors";

/// The files of a folder, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Returns a reproducible checkpoint in three shards with the usual additional files.
/// With `tuned`, some bytes of every shard differ.
fn model(tuned: bool) -> Files {
    let mut rng = Rng(31);
    let mut weights = |count: usize| {
        let mut weights = rng.bf16_weights(count);
        if tuned {
            weights.iter_mut().step_by(500).for_each(|byte| *byte ^= 1);
        }
        weights
    };
    let (embed, norm, up, head) = (
        weights(40_000),
        weights(64),
        weights(30_000),
        weights(20_000),
    );
    let index = format!(
        "{{\n  \"metadata\": {{\"total_size\": 180128}},\n  \"weight_map\": {{\n    \
         \"head\": \"{THIRD}\",\n    \"embed\": \"{FIRST}\",\n    \"norm\": \"{FIRST}\",\n    \
         \"up\": \"{SECOND}\"\n  }}\n}}\n"
    );
    let files: [(&str, Vec<u8>); 6] = [
        (
            FIRST,
            checkpoint(&[("embed", "BF16", &embed), ("norm", "BF16", &norm)]),
        ),
        (SECOND, checkpoint(&[("up", "BF16", &up)])),
        // The index does not list `extra`.
        (
            THIRD,
            checkpoint(&[("head", "BF16", &head), ("extra", "BF16", &norm)]),
        ),
        (INDEX, index.into_bytes()),
        ("config.json", b"{\"hidden_size\": 64}\n".to_vec()),
        ("tokenizer.model", rng.bytes(3000)),
    ];
    files.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

fn write(folder: &Path, files: &Files) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Creates a temporary folder with the model in `model`.
fn scratch(files: &Files) -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("model");
    write(&folder, files);
    (scratch, folder)
}

/// Returns the names of all entries in a folder, including hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn engine() -> Engine {
    Engine::new(2).unwrap()
}

fn job() -> Job<'static> {
    Job::new().engine(&engine())
}

fn pack(input: &Path, target: &Path) -> zstn::Result<PackReport> {
    zstn::pack(&job(), input, target, &PackOptions::default())
}

fn unpack(input: &Path, target: &Path) -> zstn::Result<UnpackReport> {
    zstn::unpack(&job(), input, target, &UnpackOptions::default())
}

/// Returns the report about the other files of the folder.
fn rest(report: PackReport) -> FolderReport {
    report.folder.expect("a folder was made")
}

fn rule(error: &zstn::Error) -> Option<Rule> {
    error.refusal().and_then(zstn_core::Error::rule)
}

/// The reported progress, in bytes.
#[derive(Default)]
struct Told(Mutex<(Vec<u64>, u64)>);

impl Progress for Told {
    fn begin(&self, len_bytes: u64) {
        self.0.lock().unwrap().0.push(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        self.0.lock().unwrap().1 += len_bytes;
    }
}
