//! Deltas packed, restored and verified from file to file.
//!
//! Incremental packing against a base produces the same file as packing in memory, and so
//! does the npm package: this test and `tests/js/node/pack-delta.test.mjs` check the
//! digests in `vectors/pure-delta.json`.
//!
//! When the encoder's choices change, the digests change. Run this test once with
//! `ZSTN_WRITE_DIGESTS=1` to update them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use zstn::{Job, PackOptions, Progress, Storage, UnpackOptions, VerifyOptions};
use zstn_core::bytes::part;
use zstn_core::container::model_delta::{
    Base, DeltaOptions, IncrementalDeltaPacker, ModelDelta, Needs, RecordKind, pack,
};
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result, Rule, TensorRef};
use zstn_tests::cases::{self, text};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, sha256, tier};

use crate::incremental::{self, Digests};

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
    // The payload ends with uncompressed data, so this changes a value and leaves the
    // frame intact.
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

struct Piecewise {
    delta: Vec<u8>,
    packing: IncrementalDeltaPacker,
    /// Number of bytes of the base that were read.
    base_bytes: usize,
}

/// Packs incrementally as a web page does, and checks that the number of reads equals
/// the announced one.
fn piecewise(target: &[u8], base: &[u8], options: DeltaOptions) -> Result<Piecewise> {
    let (target_len, base_len) = (target.len() as u64, base.len() as u64);
    let mut packing = IncrementalDeltaPacker::new(target_len, base_len, options);
    let mut out = Vec::new();
    let (mut target_bytes, mut base_bytes) = (0, 0);
    let mut announced = None;
    while let Some(Needs { target: t, base: b }) = packing.needs() {
        let (t, b) = (part(target, t), part(base, b));
        target_bytes += t.len();
        base_bytes += b.len();
        out.extend(packing.supply(&Pure, t.into(), b.to_vec().into())?);
        announced = announced.or(packing.read_len_bytes());
    }
    assert_eq!(target_bytes, target.len(), "every byte is read once");
    if let Some(announced) = announced {
        assert_eq!(announced, (target_bytes + base_bytes) as u64);
    }
    let delta = match options.prefix_last {
        true => [packing.prefix(), &out].concat(),
        false => out,
    };
    Ok(Piecewise {
        delta,
        packing,
        base_bytes,
    })
}

fn digests_of(effort: Effort) -> Digests {
    let mut digests = Digests::new();
    for case in cases::deltas("zstn", "z4dm") {
        let (name, base) = (text(&case["name"]), cases::named("zstn", &case["base"]));
        let target = cases::named("zstn", &case["target"]);
        let whole = pack(&Pure, &target, &Base::parse(&base).unwrap(), effort);
        for prefix_last in [false, true] {
            let options = DeltaOptions::new(effort).prefix_last(prefix_last);
            let piecewise = piecewise(&target, &base, options);
            match (&whole, piecewise) {
                (Ok(whole), Ok(piecewise)) => {
                    assert!(&piecewise.delta == whole, "{name}: two ways, two files");
                }
                (Err(whole), Err(piecewise)) => assert_eq!(*whole, piecewise, "{name}"),
                _ => panic!("{name} is packed one way and refused the other"),
            }
        }
        if let Ok(delta) = whole {
            let restored = super::restore(&Pure, &delta, &base).expect("it unpacks");
            assert!(restored == target, "{name} restores other bytes");
            digests.insert(name, sha256(&delta));
        }
    }
    digests
}

#[test]
fn the_same_bytes_every_time_and_everywhere() {
    incremental::check("pure-delta.json", 20, digests_of);
}

/// Returns a base of a few megabytes with a tensor of its own at either end, and a
/// fine-tune whose other tensors are in the order of `names`.
fn base_and_target(names: [&str; 3]) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng(31);
    let tensors = ["a", "b", "c"].map(|name| (name, rng.bf16_weights(400_000)));
    let own = rng.bf16_weights(70_000);
    let mut list: Vec<_> = tensors.iter().map(|(n, t)| (*n, "BF16", &t[..])).collect();
    list.insert(0, ("first", "BF16", &own));
    list.push(("last", "BF16", &own));
    let base = checkpoint(&list);
    let mut tuned: BTreeMap<&str, Vec<u8>> = tensors.into_iter().collect();
    for byte in tuned.get_mut("b").unwrap().iter_mut().step_by(500) {
        *byte ^= 1;
    }
    let new = rng.bf16_weights(30_000);
    let mut list: Vec<_> = names.iter().map(|n| (*n, "BF16", &tuned[n][..])).collect();
    list.insert(1, ("new", "BF16", &new));
    (base, checkpoint(&list))
}

#[test]
fn a_base_in_the_same_order_is_read_once_where_the_prefix_may_come_last() {
    let options = DeltaOptions::new(Effort::Fast);
    for (names, read_again) in [(["a", "b", "c"], 0), (["c", "a", "b"], 1_600_000)] {
        let (base, target) = base_and_target(names);
        let last = piecewise(&target, &base, options.prefix_last(true)).unwrap();
        assert_eq!(last.base_bytes, base.len() + read_again, "{names:?}");
        let first = piecewise(&target, &base, options).unwrap();
        // The three shared tensors are read twice, except for the bytes in the first
        // range.
        let twice = base.len() + 2_400_000;
        assert!((twice - (64 << 10)..=twice).contains(&first.base_bytes));
        assert!(first.delta == last.delta);
        let packed = last.packing.packed();
        let kinds: Vec<_> = packed.iter().map(|t| t.kind).collect();
        let kind = |name: &str| match name {
            "b" => RecordKind::Delta,
            _ => RecordKind::Copy,
        };
        let [one, two, three] = names.map(kind);
        assert_eq!(kinds, [one, RecordKind::Full, two, three]);
        let stored = packed.iter().map(|t| t.stored_len_bytes);
        assert!(stored.sum::<u64>() < last.delta.len() as u64);
    }
}

#[test]
fn errors_say_which_file_they_are_about() {
    let (base, target) = base_and_target(["a", "b", "c"]);
    let refusal = |target: &[u8], base: &[u8]| {
        let options = DeltaOptions::default();
        let error = piecewise(target, base, options).err().expect("a refusal");
        (error.kind(), error.rule(), error.to_string())
    };
    for cut in [0, 7, 100] {
        let (kind, rule, text) = refusal(&target, &base[..cut]);
        assert!(text.starts_with("the base: "), "{text}");
        let of_target = refusal(&target[..cut], &base);
        assert_eq!((kind, rule), (of_target.0, of_target.1));
        assert!(!of_target.2.contains("base"), "{}", of_target.2);
    }
    let cut = refusal(&target[..target.len() - 1], &base);
    assert_eq!(cut.1, Some(Rule::SafetensorsTruncated));
    let delta = piecewise(&target, &base, DeltaOptions::default()).unwrap();
    let packed = refusal(&target, &delta.delta);
    assert_eq!(packed.0, ErrorKind::Unsupported);
    assert!(packed.2.contains("packed itself"), "{}", packed.2);
    let packed = refusal(&delta.delta, &base);
    assert_eq!(packed.0, ErrorKind::InvalidInput);
    assert!(packed.2.contains("already packed"), "{}", packed.2);
}

#[test]
fn bytes_that_were_not_asked_for_are_refused() {
    let mut packing = IncrementalDeltaPacker::new(100, 50, DeltaOptions::default());
    let needs = packing.needs().expect("the heads");
    assert_eq!((needs.target, needs.base), (0..100, 0..50));
    for (target, base) in [(99, 50), (100, 51)] {
        let refused = packing.supply(&Pure, vec![0; target].into(), vec![0; base].into());
        let error = refused.expect_err("other lengths");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
