//! Operations that their progress watcher cancels: they leave no output, and the
//! watcher is never called after the output appeared.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use zstn::convert::Target;
use zstn::family::{SketchOptions, save_sketch};
use zstn::{
    CancelToken, ConvertOptions, Engine, Error, Job, PackOptions, Phase, Progress, Result,
    UnpackOptions,
};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

/// How a watcher cancels the operation.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Never,
    /// Panics at the call with this number, as watchers without another way to cancel
    /// do.
    Panic(usize),
    /// Cancels the job at the call with this number.
    Token(usize),
    /// Returns an error when the output is about to appear.
    Refuse,
}

struct Watcher {
    end: End,
    token: CancelToken,
    calls: Mutex<Vec<&'static str>>,
}

impl Watcher {
    fn new(end: End) -> Self {
        Self {
            end,
            token: CancelToken::new(),
            calls: Mutex::default(),
        }
    }

    fn called(&self, name: &'static str) {
        let mut calls = self.calls.lock().unwrap();
        calls.push(name);
        let number = calls.len() - 1;
        drop(calls);
        match self.end {
            End::Panic(at) if at == number => panic::resume_unwind(Box::new(())),
            End::Token(at) if at == number => self.token.cancel(),
            _ => {}
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
type Verb = (&'static str, fn(&Job, &Path, &Path) -> Result<()>);

const VERBS: [Verb; 12] = [
    ("a.zstn", |job, from, to| {
        let options = PackOptions::default();
        zstn::pack(job, from.join("a.safetensors"), to, &options).map(drop)
    }),
    ("a.z4dm", |job, from, to| {
        let options = PackOptions::default().base(from.join("base.zstn"));
        zstn::pack(job, from.join("a.safetensors"), to, &options).map(drop)
    }),
    ("packed", |job, from, to| {
        let options = PackOptions::default();
        zstn::pack(job, from.join("folder"), to, &options).map(drop)
    }),
    ("a.safetensors", |job, from, to| {
        let options = UnpackOptions::default();
        zstn::unpack(job, from.join("base.zstn"), to, &options).map(drop)
    }),
    ("d.safetensors", |job, from, to| {
        let options = UnpackOptions::default().base(from.join("base.safetensors"));
        zstn::unpack(job, from.join("a.z4dm"), to, &options).map(drop)
    }),
    ("unpacked", |job, from, to| {
        let options = UnpackOptions::default();
        zstn::unpack(job, from.join("packed"), to, &options).map(drop)
    }),
    ("c.safetensors", |job, from, to| {
        let options = ConvertOptions::default();
        let input = from.join("base.zstn");
        zstn::convert(job, input, to, &Target::Safetensors, &options).map(drop)
    }),
    ("c.zt", |job, from, to| {
        let options = ConvertOptions::default();
        let target = Target::ZTensor {
            is_zstd: true,
            checksum: None,
        };
        zstn::convert(job, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("c.zstn", |job, from, to| {
        let options = ConvertOptions::default();
        let target = Target::Zstn {
            effort: zstn::Effort::Fast,
        };
        zstn::convert(job, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("c.safetensors.index.json", |job, from, to| {
        let options = ConvertOptions::default().shard_bytes(2000);
        let input = from.join("a.safetensors");
        zstn::convert(job, input, to, &Target::Safetensors, &options).map(drop)
    }),
    ("c.zstn.index.json", |job, from, to| {
        let options = ConvertOptions::default().shard_bytes(2000);
        let target = Target::Zstn {
            effort: zstn::Effort::Fast,
        };
        zstn::convert(job, from.join("a.safetensors"), to, &target, &options).map(drop)
    }),
    ("a.sketch", |job, from, to| {
        let options = SketchOptions::default();
        save_sketch(job, from.join("a.safetensors"), to, &options).map(drop)
    }),
];

fn inputs(job: &Job) -> tempfile::TempDir {
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
    zstn::pack(job, at("base.safetensors"), at("base.zstn"), &packing).unwrap();
    zstn::pack(job, at("folder"), at("packed"), &packing).unwrap();
    let packing = packing.base(at("base.safetensors"));
    zstn::pack(job, at("a.safetensors"), at("a.z4dm"), &packing).unwrap();
    folder
}

/// Returns the paths below a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn nothing_appears_after_a_watcher_has_ended_the_work() {
    let job = Job::new().engine(&Engine::new(2).unwrap());
    let inputs = inputs(&job);
    for (name, work) in VERBS {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join(name);
        let run = |end: End| {
            let watcher = Watcher::new(end);
            let job = job.clone().progress(&watcher).cancel_token(&watcher.token);
            let call = || work(&job, inputs.path(), &target);
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
        // A token ends the work at each of these calls, too.
        for path in entries(scratch.path()) {
            match path.is_dir() {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
        }
        for number in 0..calls.len() {
            let (result, _) = run(End::Token(number));
            let error = result.unwrap().unwrap_err();
            assert!(matches!(error, Error::Cancelled), "{name}: {error}");
            assert_eq!(
                entries(scratch.path()),
                [] as [PathBuf; 0],
                "{name}, call {number}"
            );
        }
        run(End::Never).0.unwrap().unwrap();
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

/// A progress that reports when the work has advanced.
struct Advanced(SyncSender<()>);

impl Progress for Advanced {
    fn begin(&self, _: u64) {}

    fn advance(&self, _: u64) {
        let _ = self.0.try_send(());
    }
}

/// Cancels a job from another thread in the middle of its work, `wait_ms` milliseconds
/// after its first progress. Returns how long the job took to end.
fn time_to_end(work: impl Fn(&Job) -> Result<()>, wait_ms: u64) -> Duration {
    let token = CancelToken::new();
    let (sender, receiver) = sync_channel(1);
    let canceller = thread::spawn({
        let guard = token.drop_guard();
        move || {
            receiver.recv().unwrap();
            thread::sleep(Duration::from_millis(wait_ms));
            drop(guard);
            Instant::now()
        }
    });
    let progress = Advanced(sender);
    let job = Job::new().progress(&progress).cancel_token(&token);
    let error = work(&job).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let ended = Instant::now();
    ended.duration_since(canceller.join().unwrap())
}

#[test]
fn a_token_ends_work_at_once() {
    /// A cancelled job ends in less than the time of the whole work divided by this.
    /// Both times grow with the load of the machine.
    const MOST: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let weights = Rng(7).bf16_weights(32 << 20);
    let parts: Vec<&[u8]> = weights.chunks(weights.len() / 4).collect();
    let tensors = ["a", "b", "c", "d"].into_iter().zip(&parts);
    let tensors: Vec<_> = tensors
        .map(|(name, bytes)| (name, "BF16", *bytes))
        .collect();
    fs::write(at("m.safetensors"), checkpoint(&tensors)).unwrap();
    let slow = PackOptions::default().effort(zstn::Effort::Max);
    let pack = |job: &Job| zstn::pack(job, at("m.safetensors"), at("m.zstn"), &slow).map(drop);
    let started = Instant::now();
    pack(&Job::new()).unwrap();
    let most = started.elapsed() / MOST;
    fs::remove_file(at("m.zstn")).unwrap();
    for wait_ms in [0, 30, 90] {
        // On a busy machine, a thread may have to wait for a core.
        let attempts: Vec<_> = (0..3).map(|_| time_to_end(pack, wait_ms)).collect();
        let fastest = attempts.iter().min().unwrap();
        assert!(
            *fastest < most,
            "{wait_ms} ms: {attempts:?} of at most {most:?}"
        );
    }
    assert!(!at("m.zstn").exists());
}
