//! Operations that their progress watcher cancels: they leave no output, and the
//! watcher is never called after the output appeared.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use zstn::convert::Target;
use zstn::family::{SketchOptions, save_sketch};
use zstn::{ConvertOptions, Engine, Error, PackOptions, Phase, Progress, Result, UnpackOptions};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

/// How a watcher cancels the operation.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Never,
    /// Panics at the call with this number, as watchers without another way to cancel
    /// do.
    Panic(usize),
    /// Returns an error when the output is about to appear.
    Refuse,
}

struct Watcher {
    end: End,
    calls: Mutex<Vec<&'static str>>,
}

impl Watcher {
    fn new(end: End) -> Self {
        Self {
            end,
            calls: Mutex::default(),
        }
    }

    fn called(&self, name: &'static str) {
        let mut calls = self.calls.lock().unwrap();
        calls.push(name);
        let number = calls.len() - 1;
        drop(calls);
        if self.end == End::Panic(number) {
            panic::resume_unwind(Box::new(()));
        }
    }
}

impl Progress for Watcher {
    fn begin(&self, _: u64) {
        self.called("begin");
    }

    fn advance(&self, _: u64) {
        self.called("advance");
    }

    fn phase(&self, _: Phase) {
        self.called("phase");
    }

    fn publishing(&self) -> Result<()> {
        self.called("publishing");
        match self.end {
            End::Refuse => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}

/// Every operation that creates an output: the name of the output, and a function from
/// a folder of inputs to the output path.
type Verb = (
    &'static str,
    fn(&Engine, &Path, &Path, &dyn Progress) -> Result<()>,
);

const VERBS: [Verb; 12] = [
    ("a.zstn", |engine, from, to, progress| {
        let options = PackOptions::default().progress(progress);
        zstn::pack(engine, from.join("a.safetensors"), to, &options).map(drop)
    }),
    ("a.z4dm", |engine, from, to, progress| {
        let options = PackOptions::default().base(from.join("base.zstn"));
        let options = options.progress(progress);
        zstn::pack(engine, from.join("a.safetensors"), to, &options).map(drop)
    }),
    ("packed", |engine, from, to, progress| {
        let options = PackOptions::default().progress(progress);
        zstn::pack(engine, from.join("folder"), to, &options).map(drop)
    }),
    ("a.safetensors", |engine, from, to, progress| {
        let options = UnpackOptions::default().progress(progress);
        zstn::unpack(engine, from.join("base.zstn"), to, &options).map(drop)
    }),
    ("d.safetensors", |engine, from, to, progress| {
        let options = UnpackOptions::default().base(from.join("base.safetensors"));
        let options = options.progress(progress);
        zstn::unpack(engine, from.join("a.z4dm"), to, &options).map(drop)
    }),
    ("unpacked", |engine, from, to, progress| {
        let options = UnpackOptions::default().progress(progress);
        zstn::unpack(engine, from.join("packed"), to, &options).map(drop)
    }),
    ("c.safetensors", |engine, from, to, progress| {
        let options = ConvertOptions::default().progress(progress);
        let input = from.join("base.zstn");
        zstn::convert(engine, input, to, &Target::Safetensors, &options).map(drop)
    }),
    ("c.zt", |engine, from, to, progress| {
        let options = ConvertOptions::default().progress(progress);
        let target = Target::ZTensor {
            is_zstd: true,
            checksum: None,
        };
        zstn::convert(engine, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("c.zstn", |engine, from, to, progress| {
        let options = ConvertOptions::default().progress(progress);
        let target = Target::Zstn {
            effort: zstn::Effort::Fast,
        };
        zstn::convert(engine, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("c.safetensors.index.json", |engine, from, to, progress| {
        let options = ConvertOptions::default().shard_bytes(2000);
        let options = options.progress(progress);
        let input = from.join("a.safetensors");
        zstn::convert(engine, input, to, &Target::Safetensors, &options).map(drop)
    }),
    ("c.zstn.index.json", |engine, from, to, progress| {
        let options = ConvertOptions::default().shard_bytes(2000);
        let options = options.progress(progress);
        let target = Target::Zstn {
            effort: zstn::Effort::Fast,
        };
        zstn::convert(engine, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("a.sketch", |engine, from, to, progress| {
        let options = SketchOptions::default().progress(progress);
        save_sketch(engine, from.join("a.safetensors"), to, &options).map(drop)
    }),
];

fn inputs(engine: &Engine) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut rng = Rng(5);
    let base = rng.bf16_weights(1500);
    let mut tuned = base.clone();
    tuned.iter_mut().step_by(100).for_each(|byte| *byte ^= 1);
    let file =
        |bytes: &[u8]| checkpoint(&[("a", "BF16", &bytes[..2000]), ("b", "BF16", &bytes[2000..])]);
    fs::write(at("base.safetensors"), file(&base)).unwrap();
    fs::write(at("a.safetensors"), file(&tuned)).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("folder/model.safetensors"), file(&tuned)).unwrap();
    let packing = PackOptions::default();
    zstn::pack(engine, at("base.safetensors"), at("base.zstn"), &packing).unwrap();
    zstn::pack(engine, at("folder"), at("packed"), &packing).unwrap();
    let packing = packing.base(at("base.safetensors"));
    zstn::pack(engine, at("a.safetensors"), at("a.z4dm"), &packing).unwrap();
    folder
}

/// Returns the paths below a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn nothing_appears_after_a_watcher_has_ended_the_work() {
    let engine = Engine::new(2).unwrap();
    let inputs = inputs(&engine);
    for (name, work) in VERBS {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join(name);
        let run = |end: End| {
            let watcher = Watcher::new(end);
            let call = || work(&engine, inputs.path(), &target, &watcher);
            let result = panic::catch_unwind(AssertUnwindSafe(call));
            (result, watcher.calls.into_inner().unwrap())
        };
        // Cancel the operation at every call of the watcher, including the last one
        // before the output appears.
        let mut number = 0;
        let calls = loop {
            let (result, calls) = run(End::Panic(number));
            if let Ok(result) = result {
                result.unwrap_or_else(|error| panic!("{name}: {error}"));
                break calls;
            }
            assert_eq!(
                entries(scratch.path()),
                [] as [PathBuf; 0],
                "{name}, call {number}"
            );
            number += 1;
        };
        assert!(target.exists(), "{name}");
        let publishing = calls.iter().filter(|call| **call == "publishing").count();
        assert_eq!(
            (publishing, calls.last()),
            (1, Some(&"publishing")),
            "{name}: {calls:?}"
        );
        // Existing files stay unchanged; folders are never replaced, so they are
        // removed here.
        for path in entries(scratch.path()) {
            match path.is_dir() {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::write(&path, b"before").unwrap(),
            }
        }
        let before = entries(scratch.path());
        let (result, _) = run(End::Refuse);
        let error = result.unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{name}: {error}");
        assert_eq!(entries(scratch.path()), before, "{name}");
        for path in before {
            assert_eq!(fs::read(path).unwrap(), b"before", "{name}");
        }
        let (result, calls) = run(End::Never);
        result.unwrap().unwrap();
        assert_eq!(calls.last(), Some(&"publishing"));
    }
}
