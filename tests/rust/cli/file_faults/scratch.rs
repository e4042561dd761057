//! A folder with files of several formats.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use zstn::{Engine, Job, PackOptions};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

pub(crate) const TENSOR_BYTES: usize = 300_000;

pub(crate) fn plain() -> Vec<u8> {
    let weights = Rng(9).bf16_weights(TENSOR_BYTES);
    let (a, b) = (&weights[..TENSOR_BYTES], &weights[2..][..TENSOR_BYTES]);
    checkpoint(&[("a", "BF16", a), ("b", "BF16", b)])
}

/// A folder with `m.safetensors`, a fine-tune, and the packed files of both, all with
/// an old modification time.
pub(crate) struct Scratch {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) engine: Engine,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let scratch = Self {
            folder: tempfile::tempdir().unwrap(),
            engine: Engine::new(2).unwrap(),
        };
        let mut tuned = plain();
        fs::write(scratch.at("m.safetensors"), &tuned).unwrap();
        let len = tuned.len();
        tuned[len - 1000] ^= 1;
        fs::write(scratch.at("tuned.safetensors"), tuned).unwrap();
        let options = PackOptions::default();
        let (plain, packed) = (scratch.at("m.safetensors"), scratch.at("m.zstn"));
        zstn::pack(&Job::new().engine(&scratch.engine), plain, packed, &options).unwrap();
        let options = options.base(scratch.at("m.safetensors"));
        let [tuned, delta] = ["tuned.safetensors", "tuned.z4dm"].map(|name| scratch.at(name));
        zstn::pack(&Job::new().engine(&scratch.engine), tuned, delta, &options).unwrap();
        for name in ["m.safetensors", "tuned.safetensors", "m.zstn", "tuned.z4dm"] {
            let file = File::options().write(true).open(scratch.at(name)).unwrap();
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            file.set_modified(long_ago).unwrap();
        }
        scratch
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
