//! Plans: the division of work among workers, and the destination of the results.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use zstn::{Effort, PackOptions, UnpackOptions};
use zstn_hub::worker::Stage;
use zstn_tests::command::{program, text};
use zstn_tests::stub_hub::{Fault, plan_of};
use zstn_tests::{gguf, schema, sha256};

use super::{Desk, REPO, TOKEN, names, restored, weights};

/// Runs a share of a plan. Returns the exit status and the last line of the output.
fn run(desk: &Desk, plan: &Path, shard: &str, more: &[&str]) -> (i32, Value) {
    let (status, mut lines) = run_lines(desk, plan, shard, more);
    (status, lines.pop().expect("a summary"))
}

/// Runs a share of a plan. Returns the exit status and all lines of the output.
fn run_lines(desk: &Desk, plan: &Path, shard: &str, more: &[&str]) -> (i32, Vec<Value>) {
    let out = Command::new(program())
        .args([
            "worker",
            "--json",
            "--endpoint",
            desk.stub.url(),
            "--shard",
            shard,
        ])
        .arg("--plan")
        .arg(plan)
        .args(more)
        .env("HF_TOKEN", TOKEN)
        .output()
        .unwrap();
    let lines = text(&out.stdout);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.iter().for_each(|line| schema::check("worker", line));
    assert!(!lines.is_empty(), "{}", text(&out.stderr));
    (out.status.code().unwrap(), lines)
}

/// A plan of one file, and the folder for its result.
struct OneFile {
    desk: Desk,
    file: Vec<u8>,
    plan: PathBuf,
    out: PathBuf,
}

impl OneFile {
    fn new() -> Self {
        let desk = Desk::new();
        let file = weights("a", 1);
        let files = [("a.safetensors", file.as_slice())];
        Self {
            plan: plan_of(&desk.stub, "me/one", &files, desk.folder.path()),
            out: desk.folder.path().join("out"),
            desk,
            file,
        }
    }

    /// Runs the plan. Returns the exit status and the counts of the summary.
    fn run(&self) -> (i32, [u64; 4]) {
        let to = ["--to", self.out.to_str().unwrap()];
        let (status, summary) = run(&self.desk, &self.plan, "0/1", &to);
        (status, counts(&summary))
    }
}

fn counts(summary: &Value) -> [u64; 4] {
    ["packed", "known", "refused", "retry"].map(|name| summary[name].as_u64().unwrap())
}

#[test]
fn shares_of_a_plan_fill_one_folder() {
    let desk = Desk::new();
    let (a, b, c) = (weights("a", 1), weights("b", 2), weights("c", 3));
    let first: [(&str, &[u8]); 3] = [
        ("a.safetensors", &a),
        ("d/b.safetensors", &b),
        ("bad.safetensors", b"bad"),
    ];
    let folder = desk.folder.path();
    drop(plan_of(&desk.stub, "me/one", &first, folder));
    let plan = plan_of(
        &desk.stub,
        "me/two",
        &[("a.safetensors", &a), ("c.safetensors", &c)],
        folder,
    );
    let out = folder.join("out");
    let to = ["--to", out.to_str().unwrap()];
    let [one, two] = ["0/2", "1/2"].map(|shard| run(&desk, &plan, shard, &to));
    assert_eq!(counts(&one.1)[0] + counts(&two.1)[0], 3);
    assert_eq!(counts(&one.1)[1] + counts(&two.1)[1], 1);
    assert_eq!(counts(&one.1)[2] + counts(&two.1)[2], 1);
    assert_eq!(one.0 + two.0, 1);
    let mut originals = Vec::new();
    for name in names(&out.join("done")) {
        let entry: Value =
            serde_json::from_slice(&std::fs::read(out.join("done").join(&name)).unwrap()).unwrap();
        let packed = out.join("packed").join(name.replace(".json", ".zstn"));
        let bytes = std::fs::read(&packed).unwrap();
        assert_eq!(entry["packed_sha256"], sha256(&bytes));
        assert_eq!(entry["packed_size"], bytes.len());
        let original = restored(&packed, &UnpackOptions::default());
        assert_eq!(entry["sha256"], sha256(&original));
        originals.push(original);
    }
    originals.sort();
    let mut expected = vec![a, b, c];
    expected.sort();
    assert!(originals == expected);
    let failed = names(&out.join("failed"));
    let failed = std::fs::read(out.join("failed").join(&failed[0])).unwrap();
    let failed: Value = serde_json::from_slice(&failed).unwrap();
    assert_eq!(
        (&failed["class"], &failed["path"]),
        (&"refused".into(), &"bad.safetensors".into())
    );

    // A second run reads nothing.
    desk.stub.clear_log();
    let (status, summary) = run(&desk, &plan, "0/1", &to);
    assert_eq!((status, counts(&summary)), (1, [0, 4, 1, 0]));
    assert!(desk.stub.log().is_empty());
    let (_, summary) = run(&desk, &plan, "0/1", &[to[0], to[1], "--retry-failed"]);
    assert_eq!(counts(&summary), [0, 4, 1, 0]);
    assert!(!desk.stub.log().is_empty());
}

#[test]
fn equal_files_are_packed_once_and_every_row_has_an_outcome() {
    let desk = Desk::new();
    let values = [7; 1 << 16];
    let file = gguf::file(&[], &[("w", gguf::F32, &[1 << 14], values.to_vec())]);
    let files: [(&str, &[u8]); 3] = [
        ("a.pt", &file),
        ("d/pytorch_model.bin", &file),
        ("bad.safetensors", b"bad"),
    ];
    desk.push(&files);
    let plan = desk.folder.path().join("plan.jsonl");
    let rows = files.iter().chain([&files[2]]).map(|(path, bytes)| {
        let row = serde_json::json!({
            "repo": REPO, "revision": desk.head(), "path": path,
            "size": bytes.len(), "sha256": sha256(bytes),
        });
        format!("{row}\n")
    });
    std::fs::write(&plan, rows.collect::<String>()).unwrap();
    let out = desk.folder.path().join("out");
    let to = ["--to", out.to_str().unwrap()];
    let (status, lines) = run_lines(&desk, &plan, "0/1", &to);
    let outcomes = lines.iter().filter(|line| line["event"] == "job");
    let outcomes = outcomes.map(|line| ["stage", "path"].map(|key| line[key].as_str().unwrap()));
    assert_eq!(
        outcomes.collect::<Vec<_>>(),
        [
            ["packed", "a.pt"],
            ["reused", "d/pytorch_model.bin"],
            ["refused", "bad.safetensors"],
            ["refused", "bad.safetensors"],
        ]
    );
    assert_eq!((status, counts(&lines[4])), (1, [1, 1, 2, 0]));
    assert_eq!(names(&out.join("packed")).len(), 1);
    // In a repository, each file has its own packed one.
    let state = desk.state();
    let to = ["--to", "hub", "--state", state.to_str().unwrap()];
    let (_, summary) = run(&desk, &plan, "0/1", &to);
    assert_eq!(counts(&summary), [1, 1, 2, 0]);
    assert!(desk.unpacked("a.pt.zstn") == file);
    assert!(desk.unpacked("d/pytorch_model.bin.zstn") == file);
}

#[test]
fn what_may_pass_is_tried_by_the_next_run() {
    let one = OneFile::new();
    one.desk.stub.inject(Fault {
        path: "a.safetensors".into(),
        status: Some(500),
        ..Fault::default()
    });
    assert_eq!(one.run(), (3, [0, 0, 0, 1]));
    one.desk.stub.heal();
    assert_eq!(one.run(), (0, [1, 0, 0, 0]));
}

/// An entry in `done` counts only if its packed file exists, too.
#[test]
fn a_missing_plan_is_no_reason_to_try_again() {
    let one = OneFile::new();
    let out = Command::new(program())
        .args(["worker", "--endpoint", one.desk.stub.url(), "--plan"])
        .arg(one.plan.with_file_name("nothing.jsonl"))
        .arg("--to")
        .arg(&one.out)
        .output()
        .unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("nothing.jsonl"), "{said}");
    assert!(!one.out.exists());
}

#[test]
fn a_result_that_was_lost_is_made_again() {
    let one = OneFile::new();
    let OneFile { file, out, .. } = &one;
    one.run();
    let name = names(&out.join("packed")).remove(0);
    let (packed, done) = (
        out.join("packed").join(&name),
        out.join("done").join(name.replace(".zstn", ".json")),
    );
    let (good, entry) = (
        std::fs::read(&packed).unwrap(),
        std::fs::read(&done).unwrap(),
    );
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    // The packed file is missing, truncated, or damaged and without an entry.
    for (bytes, has_entry) in [
        (None, true),
        (Some(&good[..good.len() / 2]), true),
        (Some(&*flipped), false),
        (Some(&good[..good.len() / 2]), false),
    ] {
        match bytes {
            None => std::fs::remove_file(&packed).unwrap(),
            Some(bytes) => std::fs::write(&packed, bytes).unwrap(),
        }
        if !has_entry {
            std::fs::remove_file(&done).unwrap();
        }
        assert_eq!(one.run(), (0, [1, 0, 0, 0]));
        assert!(std::fs::read(&packed).unwrap() == good);
        assert_eq!(std::fs::read(&done).unwrap(), entry);
    }
    // Different packed bytes that restore the original are retained, and the new entry
    // describes them.
    let options = PackOptions::default().effort(Effort::Fast);
    let fast = super::packed(file, &options.integrity(false));
    assert!(fast != good);
    std::fs::write(&packed, &fast).unwrap();
    std::fs::remove_file(&done).unwrap();
    assert_eq!(one.run().1, [1, 0, 0, 0]);
    assert!(std::fs::read(&packed).unwrap() == fast);
    let entry: Value = serde_json::from_slice(&std::fs::read(&done).unwrap()).unwrap();
    assert_eq!(entry["packed_sha256"], sha256(&fast));
    assert_eq!(entry["packed_size"], fast.len());
}

#[test]
fn bytes_that_are_not_those_of_the_plan_are_not_stored() {
    let one = OneFile::new();
    let text = std::fs::read_to_string(&one.plan).unwrap();
    let (ours, other) = (sha256(&one.file), sha256(&weights("b", 2)));
    std::fs::write(&one.plan, text.replace(&ours, &other)).unwrap();
    assert_eq!(one.run(), (1, [0, 0, 1, 0]));
    let is_empty = |folder: &str| names(&one.out.join(folder)).is_empty();
    assert!(is_empty("packed") && is_empty("done"));
}

#[test]
fn a_plan_becomes_a_commit_for_each_repository() {
    let desk = Desk::new();
    let (a, b) = (weights("a", 1), weights("b", 2));
    let before = desk.head();
    let files: [(&str, &[u8]); 2] = [("a.safetensors", &a), ("b.safetensors", &b)];
    desk.push(&files);
    assert_ne!(desk.head(), before);
    let plan = desk.folder.path().join("plan.jsonl");
    let row = |path: &str, bytes: &[u8]| {
        serde_json::json!({
            "repo": REPO, "revision": desk.head(), "path": path,
            "size": bytes.len(), "sha256": sha256(bytes),
        })
    };
    std::fs::write(&plan, format!("{}\n", row("a.safetensors", &a))).unwrap();
    let state = desk.state();
    let to = ["--to", "hub", "--state", state.to_str().unwrap()];
    let (status, summary) = run(&desk, &plan, "0/2", &to);
    assert_eq!((status, counts(&summary)), (0, [1, 0, 0, 0]));
    assert_eq!(counts(&run(&desk, &plan, "1/2", &to).1), [0; 4]);
    // Files that the plan does not list are left alone.
    assert!(desk.unpacked("a.zstn") == a && !desk.has("b.zstn"));
    let head = desk.head();
    assert_eq!(counts(&run(&desk, &plan, "0/1", &to).1), [0, 1, 0, 0]);
    assert_eq!(desk.head(), head);
    // A worker with an empty state folder does not commit again either.
    let fresh = desk.folder.path().join("fresh");
    let to = ["--to", "hub", "--state", fresh.to_str().unwrap()];
    let (status, summary) = run(&desk, &plan, "0/1", &to);
    assert_eq!((status, counts(&summary)), (0, [0, 1, 0, 0]));
    assert_eq!(desk.head(), head);
    // A worker with the same state folder recognises the commit.
    let worker = desk.unnotified_worker();
    worker.notify(&before, &head);
    let nothing = worker.wait(Stage::Nothing, 1);
    assert_eq!(nothing.detail.as_deref(), Some("a commit of this worker"));
}
