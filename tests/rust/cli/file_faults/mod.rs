//! Runs the faults of files and folders in `tests/faults/files.json`, on a folder with
//! files of several formats; output folders that change during a write.

mod inputs;
// These tests limit file sizes with the shell's `ulimit`.
#[cfg(unix)]
mod outputs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use inputs::{Change, WhenBegun};
use zstn::convert::Target;
use zstn::{ConvertOptions, Engine, Job, PackOptions, Sink, UnpackOptions};
use zstn_tests::faults::Run;
use zstn_tests::faults::files::{FileFaults, FolderFault};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, faults};

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

/// An operation that writes a file and calls the function when work has begun. Adding
/// an operation here runs all faults with it.
type Write = fn(&Scratch, Sink<'_>, Change<'_>) -> zstn::Result<()>;

const SURFACES: [(&str, Write); 3] = [
    ("pack", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let input = scratch.at("m.safetensors");
        zstn::pack(&job, input, output, &PackOptions::default()).map(drop)
    }),
    ("unpack", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let input = scratch.at("m.zstn");
        zstn::unpack(&job, input, output, &UnpackOptions::default()).map(drop)
    }),
    ("convert", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let options = ConvertOptions::default();
        let input = scratch.at("m.zstn");
        zstn::convert(&job, input, output, &Target::Safetensors, &options).map(drop)
    }),
];

#[test]
fn a_folder_that_changes_meanwhile_loses_nothing_of_others() {
    let mut runs = Vec::new();
    for (name, write) in SURFACES {
        for fault in &FileFaults::load().meanwhile {
            let problem = judge(write, fault).err();
            runs.push(Run {
                case: fault.name.clone(),
                surface: format!("native {name}"),
                problem: problem.map(|problem| format!("{name}, {}: {problem}", fault.name)),
            });
        }
    }
    faults::write_report("native-meanwhile", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn judge(write: Write, fault: &FolderFault) -> Result<(), String> {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("folder")).unwrap();
    let output = scratch.at("folder/out");
    let sink = Sink::path(&output).overwrite(false);
    let is_refused = AtomicBool::new(false);
    let found = write(&scratch, sink, &|| match fault.act.apply(&output) {
        Ok(()) => {}
        // Windows does not remove a folder that contains an open file.
        Err(_) if cfg!(windows) => is_refused.store(true, Ordering::Relaxed),
        Err(error) => panic!("{error}"),
    });
    let code = found.as_ref().map_or_else(zstn::Error::code, |()| "right");
    let may_succeed = is_refused.into_inner() && code == "right";
    if code != fault.native && !may_succeed {
        return Err(format!("{code}, not {}: {found:?}", fault.native));
    }
    let is_mine = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == b"mine");
    let names = fs::read_dir(scratch.at("folder")).into_iter().flatten();
    for path in names.map(|entry| entry.unwrap().path()) {
        let is_result = path == output && code == "right";
        if is_mine(&path) == is_result {
            return Err(format!("{} is not as it should be", path.display()));
        }
    }
    Ok(())
}
