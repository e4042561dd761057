//! Packing files and committing the results.

use zstn::PackOptions;
use zstn_hub::worker::{Stage, WorkerOptions};
use zstn_tests::checkpoints::{npy, quantised, usual};
use zstn_tests::stub_hub::{Fault, LoggedRequest, Options};

use super::{Desk, REPO, TOKEN, names, packed, small, wait, weights};

const INDEX: &[u8] = br#"{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}"#;

#[test]
fn a_push_becomes_a_commit_that_restores_it() {
    let desk = Desk::with(Options {
        page_len: 2,
        ..Options::default()
    });
    let worker = desk.worker();
    let (a, b, tuned) = (weights("a", 1), weights("b", 2), weights("c", 3));
    desk.push(&[
        ("m-1.safetensors", &a),
        ("m-2.safetensors", &b),
        ("m.safetensors.index.json", INDEX),
        ("deep/er/lora é.safetensors", &tuned),
    ]);
    let committed = worker.wait(Stage::Committed, 1);
    assert_eq!(committed.repo, REPO);
    for (path, bytes) in [
        ("m-1.zstn", &a),
        ("m-2.zstn", &b),
        ("deep/er/lora é.zstn", &tuned),
    ] {
        assert!(desk.unpacked(path) == *bytes, "{path}");
    }
    let read = |path| {
        desk.hub
            .read_small(&desk.repository, "main", path, 1 << 20)
            .unwrap()
    };
    // The SHA-256 from the hub's listing was verified, so the packed file does not mark
    // it as claimed.
    assert!(read("m-1.zstn") == packed(&a, &PackOptions::default()));
    let index = String::from_utf8(read("m.zstn.index.json")).unwrap();
    assert_eq!(
        index,
        String::from_utf8_lossy(INDEX).replace(".safetensors\"", ".zstn\"")
    );
    let attributes = String::from_utf8(read(".gitattributes")).unwrap();
    let line = "*.zstn filter=lfs diff=lfs merge=lfs -text\n";
    assert!(attributes.ends_with(line), "{attributes}");
    assert_eq!(attributes.matches("*.zstn").count(), 1);

    // This is the notification of the worker's own commit.
    worker.wait(Stage::Nothing, 1);
    assert_eq!(worker.count(Stage::Committed), 1);
    drop(worker);
    assert_eq!(names(&desk.jobs("finished")).len(), 2);
    assert!(names(&desk.jobs("queued")).is_empty());
    // The storage server gets no token.
    let log = desk.stub.log();
    let mut stored = log
        .iter()
        .filter(|request| request.path.starts_with("/cdn/"))
        .peekable();
    assert!(stored.peek().is_some());
    assert!(stored.all(|request| !format!("{:?}", request.headers).contains(TOKEN)));
}

#[test]
fn extension_frames_are_written_if_they_are_allowed() {
    let desk = Desk::new();
    let mut options = WorkerOptions::default();
    options.extended = true;
    let worker = desk.worker_with(options);
    desk.push(&[
        ("grid.safetensors", &quantised()),
        ("usual.safetensors", &usual()),
    ]);
    worker.wait(Stage::Committed, 1);
    for (path, original, version) in [("grid.zstn", quantised(), 4), ("usual.zstn", usual(), 3)] {
        assert!(desk.unpacked(path) == original, "{path}");
        let packed = desk.hub.read_small(&desk.repository, "main", path, 1 << 20);
        assert_eq!(packed.unwrap()[4], version, "{path}");
    }
}

#[test]
fn small_files_in_git_are_packed_too() {
    let desk = Desk::new();
    let worker = desk.worker();
    let bytes = weights("a", 1);
    desk.commit(&[small("adapter.safetensors", &bytes)]);
    worker.wait(Stage::Committed, 1);
    assert!(desk.unpacked("adapter.zstn") == bytes);
}

#[test]
fn long_files_are_uploaded_in_parts() {
    let desk = Desk::with(Options {
        part_bytes: Some(20_000),
        ..Options::default()
    });
    let worker = desk.unnotified_worker();
    let bytes = weights("a", 1);
    let local = desk.folder.path().join("m");
    std::fs::write(&local, &bytes).unwrap();
    let before = desk.head();
    let new = desk.push(&[("model.safetensors", &bytes)]);
    worker.notify(&before, &new);
    desk.stub.inject(Fault {
        path: "/cdn/".into(),
        method: "PUT".into(),
        skip: 1,
        times: Some(1),
        status: Some(503),
        ..Fault::default()
    });
    worker.wait(Stage::Committed, 1);
    assert!(desk.unpacked("model.zstn") == bytes);
    let log = desk.stub.log();
    assert!(
        log.iter()
            .any(|request| request.path.ends_with("/complete"))
    );
}

#[test]
fn model_files_of_other_formats_keep_their_names() {
    let desk = Desk::new();
    let worker = desk.worker();
    let (array, model) = (npy(1, 20_000), weights("a", 1));
    desk.push(&[
        ("deep/array.npy", &array),
        ("array.safetensors", &npy(2, 20_000)),
        ("m.safetensors", &model),
        ("model.gguf", &weights("a", 2)),
    ]);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Nothing, 1);
    assert!(desk.unpacked("deep/array.npy.zstn") == array);
    assert!(desk.unpacked("m.zstn") == model);
    // Their content is not what their names state.
    assert_eq!(worker.count(Stage::Refused), 2);
    assert!(!desk.has("array.zstn") && !desk.has("model.gguf.zstn"));

    let changed = npy(3, 20_000);
    desk.push(&[("deep/array.npy", &changed)]);
    worker.wait(Stage::Committed, 2);
    assert!(desk.unpacked("deep/array.npy.zstn") == changed);
}

#[test]
fn equal_files_under_names_of_other_formats_do_not_decide_for_each_other() {
    let desk = Desk::new();
    let worker = desk.worker();
    let (model, array) = (weights("a", 1), npy(1, 20_000));
    desk.push(&[
        ("a.bin", &model),
        ("b.safetensors", &model),
        ("c.npy", &array),
        ("d.safetensors", &array),
    ]);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Nothing, 1);
    // Another push gets the same results from the records of the first one.
    desk.push(&[("e.bin", &model), ("f.safetensors", &model)]);
    worker.wait(Stage::Committed, 2);
    for (path, bytes) in [
        ("b.zstn", &model),
        ("c.npy.zstn", &array),
        ("f.zstn", &model),
    ] {
        assert!(desk.unpacked(path) == *bytes, "{path}");
    }
    for path in ["a.bin.zstn", "d.zstn", "e.bin.zstn"] {
        assert!(!desk.has(path), "{path}");
    }
    assert_eq!(worker.count(Stage::Packed), 2);
    let refused = worker.wait(Stage::Refused, 1).detail.unwrap();
    assert!(refused.contains("its name states"), "{refused}");
}

#[test]
fn files_that_cannot_be_packed_are_refused_once() {
    let desk = Desk::new();
    let worker = desk.worker();
    let good = weights("a", 1);
    let noise = zstn_tests::checkpoint(&[("x", "U8", &zstn_tests::rng::Rng(5).bytes(3000))]);
    desk.push(&[
        ("bad.safetensors", b"this is not what its name says"),
        ("noise.safetensors", &noise),
        ("good.safetensors", &good),
    ]);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Nothing, 1);
    assert_eq!(worker.count(Stage::Refused), 2);
    let grown = worker
        .events()
        .into_iter()
        .find(|e| e.path.as_deref() == Some("noise.safetensors"));
    assert!(grown.unwrap().detail.unwrap().contains("it would grow"));
    assert!(desk.has("good.zstn") && !desk.has("bad.zstn") && !desk.has("noise.zstn"));
    assert_eq!(names(&desk.state().join("results/failed")).len(), 2);

    // After another push, the refused files are not read again.
    desk.stub.clear_log();
    desk.push(&[("config.json", b"{}")]);
    worker.wait(Stage::Nothing, 2);
    let log = desk.stub.log();
    let is_read = |name: &str| log.iter().any(|request| request.path.contains(name));
    assert!(!is_read("resolve") || !is_read("noise.safetensors"));
}

#[test]
fn refused_files_in_git_are_read_once() {
    let desk = Desk::new();
    let worker = desk.worker();
    desk.commit(&[small("bad.safetensors", b"this is not what its name says")]);
    worker.wait(Stage::Nothing, 1);
    desk.stub.clear_log();
    desk.push(&[("config.json", b"{}")]);
    worker.wait(Stage::Nothing, 2);
    assert_eq!(worker.count(Stage::Refused), 2);
    let log = desk.stub.log();
    let is_read = |request: &LoggedRequest| request.path.contains("bad.safetensors");
    assert!(!log.iter().any(is_read), "{log:?}");
}

#[test]
fn an_index_of_refused_shards_is_left_out() {
    let desk = Desk::new();
    let worker = desk.worker();
    desk.push(&[
        ("m-1.safetensors", &weights("a", 1)),
        ("m-2.safetensors", b"no"),
        ("m.safetensors.index.json", INDEX),
    ]);
    worker.wait(Stage::Committed, 1);
    assert!(desk.has("m-1.zstn") && !desk.has("m.zstn.index.json"));
}

#[test]
fn shards_may_grow_a_little() {
    let desk = Desk::new();
    let worker = desk.worker();
    let small = zstn_tests::checkpoint(&[("b", "U8", &zstn_tests::rng::Rng(5).bytes(300))]);
    desk.push(&[
        ("m-1.safetensors", &weights("a", 1)),
        ("m-2.safetensors", &small),
        (
            "alone.safetensors",
            &zstn_tests::checkpoint(&[("c", "U8", &[7; 3])]),
        ),
        ("m.safetensors.index.json", INDEX),
    ]);
    worker.wait(Stage::Committed, 1);
    assert!(desk.has("m.zstn.index.json") && !desk.has("alone.zstn"));
    assert!(desk.unpacked("m-2.zstn") == small);
}

#[test]
fn a_changed_file_is_packed_again() {
    let desk = Desk::new();
    let worker = desk.worker();
    desk.push(&[("model.safetensors", &weights("a", 1))]);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Nothing, 1);
    let second = weights("a", 2);
    desk.push(&[("model.safetensors", &second)]);
    worker.wait(Stage::Committed, 2);
    assert!(desk.unpacked("model.zstn") == second);
}

#[test]
fn a_packed_file_of_another_file_is_replaced() {
    let desk = Desk::new();
    let (first, second) = (weights("a", 1), weights("a", 2));
    let packed = packed(&first, &PackOptions::default());
    let worker = desk.worker();
    // The previous commit has none of these files, so it proves nothing about them.
    desk.push(&[
        ("model.safetensors", &second),
        ("model.zstn", &packed),
        ("good.safetensors", &first),
        ("good.zstn", &packed),
        ("strange.safetensors", &second),
        ("strange.zstn", b"not made by zstn"),
    ]);
    worker.wait(Stage::Committed, 1);
    assert!(desk.unpacked("model.zstn") == second);
    assert_eq!(worker.count(Stage::Packed), 1);
}

#[test]
fn a_packed_file_of_a_file_with_another_name_is_kept() {
    let desk = Desk::new();
    let (model, array) = (weights("a", 1), npy(1, 20_000));
    let of_model = packed(&model, &PackOptions::default());
    let of_array = packed(&array, &PackOptions::default());
    // The files that these restore, `m.npy.safetensors` and `n.npy`, are not there.
    desk.push(&[("m.npy.zstn", &of_model), ("n.npy.zstn", &of_array)]);
    let worker = desk.worker();
    let (other, weights) = (npy(2, 20_000), weights("b", 2));
    desk.push(&[("m.npy", &other), ("n.npy.safetensors", &weights)]);
    worker.wait(Stage::Nothing, 1);
    let events = worker.events();
    let refused = events.iter().filter(|event| event.stage == Stage::Refused);
    let mut paths: Vec<_> = refused.filter_map(|event| event.path.clone()).collect();
    paths.sort();
    assert_eq!(paths, ["m.npy", "n.npy.safetensors"]);
    assert!(desk.unpacked("m.npy.zstn") == model);
    assert!(desk.unpacked("n.npy.zstn") == array);
}

/// The digest that a packed file records is a claim and does not replace a check.
#[test]
fn a_claimed_digest_replaces_no_proof() {
    let desk = Desk::new();
    let (first, second) = (weights("a", 1), weights("a", 2));
    let claim = zstn_core::container::zstn::parse_sha256(&zstn_tests::sha256(&second)).unwrap();
    let forged = packed(&first, &PackOptions::default().sha256(claim));
    let mut damaged = packed(&second, &PackOptions::default());
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let worker = desk.worker();
    desk.push(&[
        ("forged.safetensors", &second),
        ("forged.zstn", &forged),
        ("damaged.safetensors", &second),
        ("damaged.zstn", &damaged),
        ("good.safetensors", &first),
        ("good.zstn", &packed(&first, &PackOptions::default())),
    ]);
    worker.wait(Stage::Committed, 1);
    for path in ["forged.zstn", "damaged.zstn"] {
        assert!(desk.unpacked(path) == second, "{path}");
    }
    worker.wait(Stage::Nothing, 1);
    // Each packed file is decoded only once.
    desk.stub.clear_log();
    desk.push(&[("config.json", b"{}")]);
    worker.wait(Stage::Nothing, 2);
    let log = desk.stub.log();
    assert!(!log.iter().any(|request| request.path.contains("good.zstn")));
}

#[test]
fn equal_files_are_packed_once() {
    let desk = Desk::new();
    let worker = desk.worker();
    let bytes = weights("a", 1);
    desk.push(&[("a.safetensors", &bytes), ("b.safetensors", &bytes)]);
    worker.wait(Stage::Committed, 1);
    assert_eq!(
        (worker.count(Stage::Packed), worker.count(Stage::Reused)),
        (1, 1)
    );
    assert!(desk.unpacked("b.zstn") == bytes);
}

#[test]
fn a_push_meanwhile_is_planned_again() {
    let desk = Desk::new();
    let worker = desk.unnotified_worker();
    let (a, b) = (weights("a", 1), weights("b", 2));
    let before = desk.head();
    let first = desk.push(&[("a.safetensors", &a)]);
    // The upload is slow, and another user pushes in the meantime.
    desk.stub.inject(Fault {
        path: "/cdn/".into(),
        method: "PUT".into(),
        times: Some(1),
        wait_ms: 1500,
        ..Fault::default()
    });
    worker.notify(&before, &first);
    worker.wait(Stage::Started, 1);
    let has_begun = || {
        desk.stub
            .log()
            .iter()
            .filter(|r| r.path.ends_with("/batch"))
            .count()
            >= 2
    };
    wait(has_begun, || "the upload".into());
    let parent = desk.head();
    let addition = small("b.safetensors", &b);
    let second = desk.commit(&[addition]);
    assert_ne!(parent, second);
    worker.wait(Stage::Committed, 1);
    assert_eq!(worker.count(Stage::Moved), 1);
    assert_eq!(worker.count(Stage::Reused), 1);
    assert!(desk.unpacked("a.zstn") == a && desk.unpacked("b.zstn") == b);
    // The job of the second push has no work left.
    worker.notify(&first, &second);
    worker.wait(Stage::Nothing, 1);
}
