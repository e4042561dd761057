//! Deltas packed, restored and verified from file to file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zstn_core::TensorRef;

use zstn::{Job, PackOptions, Progress, Storage, UnpackOptions, VerifyOptions};
use zstn_core::ErrorKind;
use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta::{self};
use zstn_core::frame::select::Effort;
use zstn_tests::cases::{self};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::tier;

/// Creates a folder with the files `base` and `target`.
fn on_disk(base: &[u8], target: &[u8]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let paths = (write("base", base), write("target", target));
    (folder, paths.0, paths.1)
}

#[test]
fn files_are_the_same_whatever_the_memory_and_come_back() {
    let mut rng = Rng(77);
    // The second tensor alone exceeds a batch of 64 MiB / 6.
    let tensors: Vec<Vec<u8>> = [1, 11, 1, 2, 1]
        .map(|mebibytes| rng.bf16_weights(32 << 10).repeat(mebibytes << 4))
        .into();
    let mut tuned = tensors.clone();
    for tensor in &mut tuned[..3] {
        for k in (0..tensor.len()).step_by(300) {
            tensor[k] ^= 1;
        }
    }
    let named = |all: &[Vec<u8>]| {
        let names = ["a", "b", "c", "d", "e"];
        let list: Vec<_> = names
            .iter()
            .zip(all)
            .map(|(n, t)| (*n, "BF16", &t[..]))
            .collect();
        checkpoint(&list)
    };
    let (base, target) = (named(&tensors), named(&tuned));
    let (folder, base_path, target_path) = on_disk(&base, &target);
    let reference = pack(
        &zstn::Engine::new(1).unwrap(),
        &target,
        &Base::parse(&base).unwrap(),
        Effort::Fast,
    )
    .unwrap();
    let settings = [(1, 64 << 20), (2, 1 << 30)];
    for (threads, memory_bytes) in settings.into_iter().take(tier::count(1, 2)) {
        let engine = zstn::Engine::new(threads).unwrap();
        let path = folder.path().join("tuned.z4dm");
        let seen = Seen::default();
        let options = PackOptions::default().effort(Effort::Fast).base(&base_path);
        let job = Job::new().engine(&engine).memory_bytes(memory_bytes);
        let report =
            zstn::pack(&job.clone().progress(&seen), &target_path, &path, &options).unwrap();
        let Storage::Delta {
            copied, differing, ..
        } = report.files[0].storage
        else {
            panic!("{report:?}");
        };
        assert_eq!((copied, differing, report.tensors()), (2, 3, 5));
        seen.assert_complete(16 << 20);
        let packed = std::fs::read(&path).unwrap();
        assert_eq!(report.packed_bytes(), packed.len() as u64);
        assert!(
            packed == reference,
            "{threads} threads, {memory_bytes} bytes"
        );

        let back = folder.path().join("back");
        let seen = Seen::default();
        let options = UnpackOptions::default().base(&base_path);
        let job = Job::new().engine(&engine).progress(&seen);
        zstn::unpack(&job, &path, &back, &options).unwrap();
        seen.assert_complete(16 << 20);
        assert!(std::fs::read(&back).unwrap() == target);
        let options = VerifyOptions::default().base(&base_path);
        let report = zstn::verify(
            &Job::new().engine(&engine),
            &path,
            &options.clone().original(&target_path),
        );
        let report = report.unwrap();
        assert!(report.compared && report.frames() == 5);
        let error = zstn::verify(
            &Job::new().engine(&engine),
            &path,
            &options.original(&base_path),
        )
        .unwrap_err();
        assert!(matches!(error, zstn::Error::Differs { .. }), "{error}");
    }
}

/// The reported progress.
#[derive(Default)]
struct Seen {
    expected: AtomicU64,
    done: AtomicU64,
}

impl Seen {
    fn assert_complete(&self, len_bytes: u64) {
        assert_eq!(self.expected.load(Relaxed), len_bytes);
        assert_eq!(self.done.load(Relaxed), len_bytes);
    }
}

impl Progress for Seen {
    fn begin(&self, len_bytes: u64) {
        self.expected.fetch_add(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        self.done.fetch_add(len_bytes, Relaxed);
    }
}

#[test]
fn vectors_unpack_from_file_to_file() {
    let job = Job::new().engine(&zstn::Engine::new(2).unwrap());
    for case in cases::deltas("zstn", "z4dm") {
        let target = cases::named("zstn", &case["target"]);
        let (folder, base, packed) = on_disk(
            &cases::named("zstn", &case["base"]),
            &cases::named("zstn", &case["container"]),
        );
        let back = folder.path().join("back");
        let options = UnpackOptions::default().base(&base);
        zstn::unpack(&job, &packed, &back, &options)
            .unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        assert!(std::fs::read(&back).unwrap() == target, "{}", case["name"]);
        zstn::verify(&job, &packed, &VerifyOptions::default().base(&base)).unwrap();
    }
}

#[test]
fn a_bad_delta_leaves_no_file() {
    let job = Job::new().engine(&zstn::Engine::new(2).unwrap());
    let refuse = |base: &[u8], packed: &[u8], what: &str| {
        let (folder, base, packed) = on_disk(base, packed);
        let back = folder.path().join("back");
        let options = UnpackOptions::default().base(&base);
        let error = zstn::unpack(&job, &packed, &back, &options).expect_err(what);
        assert!(!back.exists(), "{what}");
        assert!(
            zstn::verify(&job, &packed, &VerifyOptions::default().base(&base)).is_err(),
            "{what}"
        );
        error
            .refusal()
            .and_then(|refusal| refusal.rule())
            .map(|rule| rule.code())
    };
    for case in cases::deltas("zstn-bad", "z4dm") {
        if case["verdict"] == "must_reject" {
            let base = cases::named("zstn-bad", &case["base"]);
            let packed = cases::named("zstn-bad", &case);
            let rule = refuse(&base, &packed, case["name"].as_str().unwrap());
            assert_eq!(rule, case["rule"].as_str(), "{}", case["name"]);
        }
    }
    // Overlapping tensors that specify different values for the same bytes.
    let case = cases::deltas("zstn", "z4dm")
        .into_iter()
        .find(|case| case["name"] == "md_target_overlap")
        .unwrap();
    let base = cases::named("zstn", &case["base"]);
    let packed = cases::named("zstn", &case["container"]);
    let delta = ModelDelta::parse(&packed).unwrap();
    assert!(delta.overlapping().len() >= 2);
    // Changes the last byte of a payload, which is stored data.
    let number = delta.overlapping()[0];
    let end = usize::try_from(delta.records()[number].payload.end).unwrap();
    let mut other = packed.clone();
    other[end - 1] ^= 0x40;
    assert_eq!(refuse(&base, &other, "overlap"), Some("delta.coverage"));
}

#[test]
fn holes_are_refused_instead_of_lost() {
    let engine = zstn::Engine::new(1).unwrap();
    let base = checkpoint(&[("a", "U8", &[1, 2, 3, 4])]);
    let mut target = base.clone();
    target.extend_from_slice(b"trailing");
    let error = pack(&engine, &target, &Base::parse(&base).unwrap(), Effort::Fast).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let other_length = delta::encode(
        &engine,
        TensorRef::flat(&[1, 2], Some(Dtype::U8)),
        &[1],
        Effort::Fast.into(),
    );
    assert_eq!(other_length.unwrap_err().kind(), ErrorKind::InvalidInput);
}
