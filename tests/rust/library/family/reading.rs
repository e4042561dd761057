//! Which bytes are read to sketch a checkpoint. Every representation of a checkpoint
//! yields the same sketch.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zstn::{Input, Job, Source};

use super::*;

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
