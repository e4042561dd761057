//! Readers use the threads of the engine that they are given, for any number of models.
//! This is a single test, because it counts the threads of the whole process and no
//! engine may end before it does.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use zstn::convert::{Target, convert};
use zstn::{ConvertOptions, Engine, Job, PackOptions, Progress, Reader};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

/// Returns the number of threads of this process.
fn count() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The largest number of threads observed when progress was reported.
#[derive(Default)]
struct Most(AtomicUsize);

impl Progress for Most {
    fn begin(&self, _: u64) {}

    fn advance(&self, _: u64) {
        self.0.fetch_max(count(), Relaxed);
    }
}

/// Writes a checkpoint, its packed file, and a delta against it.
fn write(engine: &Engine, folder: &Path) {
    const TENSOR_BYTES: usize = 1 << 20;
    let weights = Rng(9).bf16_weights(TENSOR_BYTES);
    let (a, b) = (&weights[..TENSOR_BYTES], &weights[2..][..TENSOR_BYTES]);
    let plain = checkpoint(&[("a", "BF16", a), ("b", "BF16", b)]);
    fs::write(folder.join("m.safetensors"), &plain).unwrap();
    let mut tuned = plain;
    let last = tuned.len() - 2;
    tuned[last] ^= 1;
    fs::write(folder.join("tuned.safetensors"), tuned).unwrap();
    let options = PackOptions::default();
    let [from, to] = ["m.safetensors", "m.zstn"].map(|name| folder.join(name));
    zstn::pack(&Job::new().engine(engine), from, to, &options).unwrap();
    let options = options.base(folder.join("m.safetensors"));
    let [tuned, delta] = ["tuned.safetensors", "tuned.z4dm"].map(|name| folder.join(name));
    zstn::pack(&Job::new().engine(engine), tuned, delta, &options).unwrap();
}

#[test]
fn models_share_the_threads_of_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::new(3).unwrap();
    assert_eq!(engine.threads(), 3);
    write(&engine, folder.path());
    let started = count();

    let clone = engine.clone();
    let options = Reader::options().engine(&clone);
    let base = options.open(at("m.zstn")).unwrap();
    let delta = options.clone().base(at("m.zstn"));
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(options.open(at("m.safetensors")).unwrap());
        readers.push(options.open(at("m.zstn")).unwrap());
        readers.push(delta.open(at("tuned.z4dm")).unwrap());
        let alone = options.open(at("tuned.z4dm")).unwrap();
        readers.push(alone.with_base(base.clone()).unwrap());
    }
    for reader in &readers {
        assert!(reader.engine().shares_threads_with(&engine));
        reader.read("b").unwrap();
        assert_eq!(count(), started, "{}", reader.name());
    }

    let most = Most::default();
    let job = Job::new().engine(&engine).progress(&most);
    let options = ConvertOptions::default().base(at("m.zstn"));
    let target = Target::ZTensor {
        is_zstd: true,
        checksum: None,
    };
    let delta = at("tuned.z4dm");
    convert(&job, &delta, at("tuned.zt"), &target, &options).unwrap();
    assert_eq!(most.0.into_inner(), started);

    // The shared engine of the process starts with the first reader that needs it.
    let first = Reader::open(at("m.zstn")).unwrap();
    assert!(!first.engine().shares_threads_with(&engine));
    assert!(first.engine().shares_threads_with(&Engine::default()));
    assert_eq!(count(), started + Engine::default().threads());
    let more: Vec<_> = (0..5).map(|_| Reader::open(at("m.zstn"))).collect();
    assert!(more.iter().all(Result::is_ok));
    assert_eq!(count(), started + Engine::default().threads());
}
