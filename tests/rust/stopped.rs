//! When a process is asked to stop, complete outputs remain and no further output gets
//! its final name. This is a single test, because stopping affects the whole process.

use std::fs;
use std::path::Path;

use zstn::internals::Output;
use zstn::{Engine, Job, PackOptions, Progress, remove_unfinished};
use zstn_tests::checkpoint;

/// Begins the clean-up as soon as work has begun.
struct StopsAtOnce;

impl Progress for StopsAtOnce {
    fn begin(&self, _: u64) {
        remove_unfinished();
    }

    fn advance(&self, _: u64) {}
}

#[test]
fn nothing_gets_its_name_after_the_clean_up_has_begun() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let model = tempfile::tempdir().unwrap();
    let plain = checkpoint(&[("w", "U8", b"0123")]);
    fs::write(model.path().join("model.safetensors"), plain).unwrap();
    let engine = Engine::new(1).unwrap();
    let pack = |target: &Path, progress: &dyn Progress| {
        let job = Job::new().engine(&engine).progress(progress);
        zstn::pack(&job, model.path(), target, &PackOptions::default()).map(drop)
    };
    let file = |name: &str| {
        let mut output = Output::create(&at(name)).unwrap();
        output.write(b"bytes").unwrap();
        output
    };
    pack(&at("complete"), &()).unwrap();
    file("complete.zstn").finish().unwrap();
    // Both outputs were about to be renamed when the signal arrived.
    let late_file = file("late.zstn");
    assert!(pack(&at("late"), &StopsAtOnce).is_err());
    assert!(late_file.finish().is_err());
    // Other threads may still be running for a moment.
    assert!(Output::create(&at("new.zstn")).is_err());
    assert!(pack(&at("new"), &()).is_err());

    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["complete", "complete.zstn"]);
    assert!(at("complete/model.zstn").is_file());
    assert_eq!(fs::read(at("complete.zstn")).unwrap(), b"bytes");
}
