//! Inputs that are truncated or change while they are read: the result is never
//! a mix of two versions, and the process survives.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zstn::source::{Map, Source, survive_truncation};
use zstn::{Engine, Error, PackOptions, Progress, Reader, UnpackOptions, VerifyOptions};
use zstn_core::Rule;
use zstn_tests::checkpoint;
use zstn_tests::command::{text, zstn};
use zstn_tests::rng::Rng;

const TENSOR_BYTES: usize = 300_000;

fn plain() -> Vec<u8> {
    let weights = Rng(9).bf16_weights(TENSOR_BYTES);
    let (a, b) = (&weights[..TENSOR_BYTES], &weights[2..][..TENSOR_BYTES]);
    checkpoint(&[("a", "BF16", a), ("b", "BF16", b)])
}

/// A folder with `m.safetensors`, its fine-tune, and both packed. All of them have
/// a modification time long ago.
struct Scratch {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl Scratch {
    fn new() -> Self {
        survive_truncation();
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
        zstn::pack(&scratch.engine, plain, packed, &options).unwrap();
        let options = options.base(scratch.at("m.safetensors"));
        let [tuned, delta] = ["tuned.safetensors", "tuned.z4dm"].map(|name| scratch.at(name));
        zstn::pack(&scratch.engine, tuned, delta, &options).unwrap();
        for name in ["m.safetensors", "tuned.safetensors", "m.zstn", "tuned.z4dm"] {
            let file = File::options().write(true).open(scratch.at(name)).unwrap();
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            file.set_modified(long_ago).unwrap();
        }
        scratch
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Calls a function when the work on a file has begun.
struct WhenBegun<'a>(&'a (dyn Fn() + Sync));

impl Progress for WhenBegun<'_> {
    fn begin(&self, _: u64) {
        self.0();
    }

    fn advance(&self, _: u64) {}
}

fn cut(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(5000).unwrap();
}

fn scribble(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let at = file.metadata().unwrap().len() / 2;
    file.write_all_at(b"scribbled", at).unwrap();
}

/// Every operation on whole files, with the file that changes.
type Work = fn(&Scratch, &dyn Progress) -> zstn::Result<()>;
const WORK: [(&str, &str, Work); 6] = [
    ("pack", "m.safetensors", |scratch, progress| {
        let options = PackOptions::default().progress(progress);
        let [input, output] = ["m.safetensors", "out"].map(|name| scratch.at(name));
        zstn::pack(&scratch.engine, input, output, &options).map(drop)
    }),
    ("pack --base", "tuned.safetensors", pack_delta),
    ("pack --base, the base", "m.safetensors", pack_delta),
    ("unpack", "m.zstn", |scratch, progress| {
        let options = UnpackOptions::default().progress(progress);
        let [input, output] = ["m.zstn", "out"].map(|name| scratch.at(name));
        zstn::unpack(&scratch.engine, input, output, &options).map(drop)
    }),
    ("unpack --base", "m.safetensors", |scratch, progress| {
        let base = scratch.at("m.safetensors");
        let options = UnpackOptions::default().base(base).progress(progress);
        let [input, output] = ["tuned.z4dm", "out"].map(|name| scratch.at(name));
        zstn::unpack(&scratch.engine, input, output, &options).map(drop)
    }),
    ("verify", "m.zstn", |scratch, progress| {
        let options = VerifyOptions::default().progress(progress);
        zstn::verify(&scratch.engine, scratch.at("m.zstn"), &options).map(drop)
    }),
];

fn pack_delta(scratch: &Scratch, progress: &dyn Progress) -> zstn::Result<()> {
    let base = scratch.at("m.safetensors");
    let options = PackOptions::default().base(base).progress(progress);
    let [input, output] = ["tuned.safetensors", "out"].map(|name| scratch.at(name));
    zstn::pack(&scratch.engine, input, output, &options).map(drop)
}

#[test]
fn a_file_that_changes_while_it_is_read_gives_no_result() {
    for (what, name, work) in WORK {
        for change in [cut, scribble] {
            let scratch = Scratch::new();
            let path = scratch.at(name);
            let result = work(&scratch, &WhenBegun(&|| change(&path)));
            match result {
                Err(Error::Changed { name, .. }) => assert_eq!(name, path.display().to_string()),
                other => panic!("{what}: {other:?}"),
            }
            assert!(!scratch.at("out").exists(), "{what}");
        }
        // An unchanged file is accepted, even if links to it are added or removed.
        let scratch = Scratch::new();
        let (path, link) = (scratch.at(name), scratch.at("link"));
        let link_it = || fs::hard_link(&path, &link).unwrap();
        work(&scratch, &WhenBegun(&link_it)).expect(what);
    }
}

#[test]
fn reading_past_the_end_of_a_map_that_was_cut_is_an_error_and_not_a_crash() {
    let scratch = Scratch::new();
    let map = Map::open(&scratch.at("m.safetensors")).unwrap();
    let last = map[map.len() - 1];
    map.release(0..map.len());
    cut(&scratch.at("m.safetensors"));
    assert_ne!(last, 0, "or nothing shows");
    assert_eq!(map[map.len() - 1], 0);
    let error = map.check_unchanged().unwrap_err().to_string();
    assert!(error.contains("has changed since it was opened"), "{error}");
}

#[test]
fn a_tensor_is_never_read_out_of_two_versions_of_a_file() {
    let scratch = Scratch::new();
    for name in ["m.safetensors", "m.zstn"] {
        let path = scratch.at(name);
        let reader = Reader::open(path.to_str().unwrap()).unwrap();
        reader.read("a").unwrap();
        scribble(&path);
        for result in [reader.read("a"), reader.read_rows("b", 3..5)] {
            assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
        }
    }
}

#[test]
fn a_file_that_was_cut_off_is_packed_only_when_asked_for() {
    let scratch = Scratch::new();
    let original = plain();
    for len in [
        original.len() - 1,
        original.len() / 2,
        original.len() - 2 * TENSOR_BYTES,
    ] {
        fs::write(scratch.at("cut.safetensors"), &original[..len]).unwrap();
        let folder = scratch.folder.path();
        let out = zstn(folder, &["pack", "cut.safetensors", "--json"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        let error: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
        assert_eq!(error["error"]["rule"], Rule::SafetensorsTruncated.code());
        assert!(text(&out.stderr).contains("cut off"));
        assert!(!scratch.at("cut.zstn").exists());
        // The same for a shard of a folder.
        let model = scratch.at("model");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("model.safetensors"), &original[..len]).unwrap();
        let out = zstn(folder, &["pack", "model"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        assert!(!scratch.at("model-zstn").exists());

        let out = zstn(folder, &["pack", "cut.safetensors", "--allow-truncated"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let out = zstn(folder, &["unpack", "cut.zstn", "-o", "back"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(fs::read(scratch.at("back")).unwrap() == original[..len]);
        for name in ["cut.zstn", "back"] {
            fs::remove_file(scratch.at(name)).unwrap();
        }
    }
}
