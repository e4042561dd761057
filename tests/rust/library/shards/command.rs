//! Sharded checkpoints with the command line.

#[cfg(unix)]
use zstn_tests::command::{is_ignored, program};
use zstn_tests::command::{json, text, zstn};

use super::*;

#[test]
fn the_command_line_names_and_reports() {
    let files = model(false);
    let (scratch, folder) = scratch(&files);
    let report = json(&zstn(scratch.path(), &["pack", "model", "--json"]));
    assert_eq!(report["output"], "model-zstn");
    assert_eq!(report["folder"]["index"], "model.zstn.index.json");
    assert_eq!(report["tensors"], 5);
    let shards = report["files"].as_array().unwrap();
    let sum = |key: &str| shards.iter().map(|s| s[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(report["original_bytes"], sum("original_bytes"));
    assert_eq!(report["packed_bytes"], sum("packed_bytes"));
    assert_eq!(shards[1]["input"], SECOND);
    assert_eq!(
        report["folder"]["copied_files"].as_array().unwrap().len(),
        2
    );

    let arguments = ["verify", "model-zstn", "--against", "model", "--json"];
    let verified = json(&zstn(scratch.path(), &arguments));
    assert_eq!(verified["indexed_tensors"], 4);
    assert_eq!(
        (&verified["ok"], &verified["compared"]),
        (&true.into(), &true.into())
    );

    // The default output name is the original's, which exists.
    let out = zstn(scratch.path(), &["unpack", "model-zstn", "--force"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("a folder is never replaced"));
    let report = json(&zstn(
        scratch.path(),
        &["unpack", "model-zstn", "-o", "back", "--json"],
    ));
    assert_eq!(report["files"][2]["output"], THIRD);
    assert!(read(&scratch.path().join("back")) == files);

    // Pack from inside the folder, and by the path of the index.
    let out = zstn(&folder, &["pack", ".", "--quiet"]);
    assert_eq!(out.status.code(), Some(2), "model-zstn is there already");
    let out = zstn(&folder, &["pack", INDEX]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("3 files"));
    assert_eq!(read(&folder.join("model-zstn")).len(), 5);
    std::fs::remove_dir_all(folder.join("model-zstn")).unwrap();

    write(&scratch.path().join("base"), &files);
    write(&folder, &model(true));
    let report = json(&zstn(
        scratch.path(),
        &["pack", "model", "--base", "base", "--json"],
    ));
    assert_eq!(
        (&report["output"], &report["files"][0]["differing_tensors"]),
        (&"model-z4dm".into(), &2.into())
    );
    for (arguments, status, sentence) in [
        (&["pack", "model-zstn"][..], 2, "no .safetensors file"),
        (
            &["pack", "model-zstn/model.zstn.index.json"],
            2,
            "packed already",
        ),
        (
            &["pack", "model", "-o", "-"],
            2,
            "cannot be written to a stream",
        ),
        (
            &["pack", "model", "--base", "base/config.json"],
            2,
            "no counterpart",
        ),
        (&["unpack", "model"], 2, "no .zstn or .z4dm file"),
        (&["unpack", "model-z4dm"], 2, "--base"),
        (
            &["unpack", "gone.zstn.index.json"],
            3,
            "gone.zstn.index.json",
        ),
        (
            &["unpack", "base/model.safetensors.index.json"],
            2,
            "not packed",
        ),
        (
            &["verify", "model-zstn", "--against", "model"],
            1,
            "differs",
        ),
        (&["pack", "base", "--memory", "1M"], 2, "at least"),
    ] {
        let out = zstn(scratch.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
    }
    assert_eq!(
        names(scratch.path()),
        ["back", "base", "model", "model-z4dm", "model-zstn"]
    );
}

#[cfg(unix)]
#[test]
fn a_program_that_is_stopped_leaves_nothing() {
    use std::process::Command;
    use std::time::{Duration, Instant};

    if is_ignored(rustix::process::Signal::INT) {
        eprintln!("skipped: signals are ignored here");
        return;
    }
    let weights = Rng(5).bf16_weights(24 << 20);
    let halves = weights.split_at(weights.len() / 2);
    let mut files = Files::new();
    files.insert(FIRST.into(), checkpoint(&[("a", "BF16", halves.0)]));
    files.insert(SECOND.into(), checkpoint(&[("b", "BF16", halves.1)]));
    let index = format!("{{\"weight_map\":{{\"a\":\"{FIRST}\",\"b\":\"{SECOND}\"}}}}");
    files.insert(INDEX.into(), index.into_bytes());
    let (scratch, _) = scratch(&files);
    let mut child = Command::new(program())
        .args(["pack", "model", "--effort", "max", "--quiet"])
        .current_dir(scratch.path())
        .spawn()
        .expect("zstn runs");
    let started = Instant::now();
    while names(scratch.path()).len() == 1 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "packing never began"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(status.expect("kill runs").success());
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert_eq!(names(scratch.path()), ["model"]);
}
