//! Jobs that fail and their effect on other jobs, and errors for requests that a hub
//! refuses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zstn::source::HttpOptions;
use zstn::{Effort, Engine, Error, Location, Progress};
use zstn_hub::hub::{Hub, NewCommit, Permission, Refusal, Repository};
use zstn_hub::manifest::{Class, Results, Row, key_against};
use zstn_hub::work::{Origin, RowOutcome, RowWork};
use zstn_hub::worker::{Event, Stage, Worker, WorkerOptions};

use zstn_tests::sha256;
use zstn_tests::stub_hub::{Fault, RepoId};

use super::{Desk, REPO, Running, SECRET, names, payload, post, small, wait, weights};

fn worker(desk: &Desk) -> Worker {
    let address = ([127, 0, 0, 1], 0).into();
    let worker = Worker::bind(&desk.hub, &desk.state(), address, WorkerOptions::default());
    worker.unwrap().with_secret(SECRET)
}

#[test]
fn entries_that_are_no_jobs_hold_up_nothing() {
    let desk = Desk::new();
    let queued = desk.jobs("queued");
    std::fs::create_dir_all(&queued).unwrap();
    std::fs::write(queued.join("cut.json"), b"{\"repo\":").unwrap();
    let of = |repo: &str| json!({ "repo": repo, "branch": "main", "revision": "1".repeat(40) });
    std::fs::write(queued.join("strange.json"), of("../etc").to_string()).unwrap();
    std::fs::write(queued.join("renamed.json"), of("me/other").to_string()).unwrap();
    std::fs::create_dir(queued.join("folder.json")).unwrap();
    // Opening this pipe would block until a writer opens it.
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(
        mkfifo
            .arg(queued.join("pipe.json"))
            .status()
            .unwrap()
            .success()
    );
    let before = desk.head();
    let new = desk.push(&[("a.safetensors", &weights("a", 1))]);
    let worker = desk.unnotified_worker();
    worker.notify(&before, &new);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Failed, 5);
    // The job leaves the queue shortly after its commit.
    let end = Instant::now() + Duration::from_secs(60);
    while names(&queued).len() != 5 {
        assert!(Instant::now() < end, "{:?}", names(&queued));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_job_that_ends_its_workers_is_given_up() {
    let desk = Desk::new();
    let queued = desk.jobs("queued");
    std::fs::create_dir_all(&queued).unwrap();
    let revision = "1".repeat(40);
    let job = json!({ "repo": REPO, "branch": "main", "revision": revision, "attempts": 12 });
    let name = format!("models+me+model@{revision}.json");
    std::fs::write(queued.join(&name), job.to_string()).unwrap();
    let worker = desk.unnotified_worker();
    let failed = worker.wait(Stage::Failed, 1);
    assert!(failed.detail.unwrap().contains("12 times"));
    assert_eq!(names(&desk.jobs("failed")), [name]);
    assert!(names(&queued).is_empty());
}

#[test]
fn a_job_that_panics_is_tried_again() {
    let desk = Desk::new();
    let before = desk.head();
    let new = desk.push(&[("a.safetensors", &weights("a", 1))]);
    let panicked = AtomicBool::new(false);
    let worker = Running::logging(worker(&desk), move |event| {
        let Event::Job(job) = event else { return };
        if job.stage == Stage::Packed && !panicked.swap(true, Ordering::SeqCst) {
            panic!("a log that fails once");
        }
    });
    worker.notify(&before, &new);
    let retry = worker.wait(Stage::Retry, 1);
    assert!(retry.detail.unwrap().contains("a log that fails once"));
    worker.wait(Stage::Committed, 1);
}

#[test]
fn without_its_thread_the_worker_ends() {
    let desk = Desk::new();
    let worker = worker(&desk);
    let url = worker.url();
    let thread = std::thread::spawn(move || {
        worker.run(|event| {
            if matches!(event, Event::Job(job) if job.stage == Stage::Started) {
                panic!("a log that fails");
            }
        })
    });
    let body = payload(&"0".repeat(40), &desk.head());
    let (status, answer): (u16, Value) = post(&url, Some(SECRET), &body);
    assert_eq!(
        (status, &answer["jobs"][0]["state"]),
        (202, &"queued".into())
    );
    let error = thread.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("stay in the queue"), "{error}");
    assert_eq!(names(&desk.jobs("queued")).len(), 1);
}

#[test]
fn a_file_that_fails_keeps_no_other_from_being_committed() {
    let desk = Desk::new();
    let before = desk.head();
    let files = [weights("a", 1), weights("b", 2)];
    let new = desk.push(&[("a.safetensors", &files[0]), ("b.safetensors", &files[1])]);
    desk.stub.inject(Fault {
        path: "a.safetensors".into(),
        status: Some(403),
        ..Fault::default()
    });
    let worker = desk.unnotified_worker();
    worker.notify(&before, &new);
    // A refused permission is not retried, but the other file is committed.
    worker.wait(Stage::Failed, 2);
    assert_eq!(worker.count(Stage::Committed), 1);
    assert!(desk.unpacked("b.zstn") == files[1] && !desk.has("a.zstn"));
    desk.stub.heal();
    // The same notification completes the remaining work.
    worker.notify(&before, &new);
    worker.wait(Stage::Committed, 2);
    assert!(desk.unpacked("a.zstn") == files[0]);
    assert_eq!(worker.count(Stage::Packed), 2);
}

/// Two files are packed at the same time if the memory suffices for two. Their failures
/// are reported in the order of the files, and a refusal of the repository leaves it as it
/// is.
#[test]
fn files_at_the_same_time_fail_in_order() {
    let desk = Desk::new();
    let before = desk.head();
    let files: Vec<_> = (1..4).map(|seed| weights("w", seed)).collect();
    let new = desk.push(&[
        ("a.safetensors", &files[0]),
        ("b.safetensors", &files[1]),
        ("c.safetensors", &files[2]),
    ]);
    for (path, status, wait_ms) in [
        ("a.safetensors", Some(403), 1500),
        ("b.safetensors", Some(403), 300),
        ("c.safetensors", None, 300),
    ] {
        desk.stub.inject(Fault {
            path: path.into(),
            status,
            wait_ms,
            ..Fault::default()
        });
    }
    let mut options = WorkerOptions::default();
    options.memory_bytes = Some(512 << 20);
    let worker = desk.unnotified_worker_with(options);
    worker.notify(&before, &new);
    let mut at_once = 0;
    let has_failed = || {
        at_once = at_once.max(desk.stub.waiting());
        worker.count(Stage::Failed) == 3
    };
    wait(has_failed, || "three failures".into());
    assert_eq!(at_once, 2);
    let failed = worker.events().into_iter();
    let failed: Vec<_> = failed.filter(|e| e.stage == Stage::Failed).collect();
    let paths: Vec<_> = failed.iter().map(|e| e.path.as_deref()).collect();
    assert_eq!(paths, [Some("a.safetensors"), Some("b.safetensors"), None]);
    let job = failed[2].detail.as_deref().unwrap();
    assert!(job.contains("a.safetensors"), "{job}");
    assert!(desk.unpacked("c.zstn") == files[2]);
    assert!(!desk.has("a.zstn") && !desk.has("b.zstn"));

    desk.stub.heal();
    let committed = desk.head();
    desk.stub.inject(Fault {
        path: "/objects/batch".into(),
        status: Some(403),
        ..Fault::default()
    });
    worker.notify(&before, &new);
    worker.wait(Stage::Failed, 4);
    assert_eq!(desk.head(), committed);
}

/// Commits a file, as a client of `hub` does, on a commit that is not the latest one.
fn commit(hub: &Hub, repository: &Repository) -> zstn::Result<String> {
    let commit = NewCommit {
        branch: "main",
        parent: &"0".repeat(40),
        summary: "x",
        description: "",
        additions: &[small("x", b"x")],
    };
    hub.commit(repository, &commit)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    let error = result.unwrap_err();
    let refusal = Refusal::in_error(&error).cloned();
    refusal.unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn refusals_have_their_kind() {
    let desk = Desk::new();
    let url = desk.stub.url();
    let nobody = Hub::new(url, None).unwrap();
    let stranger = Hub::new(url, Some("hf_unknown")).unwrap();
    let repository = &desk.repository;
    assert!(matches!(
        refusal(commit(&nobody, repository)),
        Refusal::NoToken { .. }
    ));
    assert!(matches!(
        refusal(commit(&stranger, repository)),
        Refusal::Unauthorized { .. }
    ));
    let moved = refusal(commit(&desk.hub, repository));
    assert!(matches!(moved, Refusal::ParentMoved { .. }));
    let missing: Repository = "me/none".parse().unwrap();
    assert!(matches!(
        refusal(desk.hub.files(&missing, "main")),
        Refusal::NotFound { .. }
    ));
    assert!(matches!(
        refusal(desk.hub.files(repository, "none")),
        Refusal::NotFound { .. }
    ));
    desk.stub.restrict(&RepoId::model(REPO), false, true);
    let batch = nobody.has_object(repository, &"0".repeat(64), 1);
    assert!(matches!(
        refusal(batch),
        Refusal::NoToken { .. } | Refusal::Gated { .. }
    ));
}

#[test]
fn a_refusal_names_the_permission_that_is_missing() {
    let desk = Desk::new();
    let nobody = Hub::new(desk.stub.url(), None).unwrap();
    desk.stub.restrict(&RepoId::model(REPO), true, false);
    let sentence = |result: zstn::Result<()>| refusal(result).to_string();
    for status in [401, 403] {
        desk.stub.inject(Fault {
            path: "/api/models/".into(),
            status: Some(status),
            ..Fault::default()
        });
        let hub = if status == 401 { &nobody } else { &desk.hub };
        let read = sentence(hub.files(&desk.repository, "main").map(drop));
        assert!(read.contains("read the repository"), "{read}");
        let written = sentence(commit(hub, &desk.repository).map(drop));
        assert!(written.contains("write to the repository"), "{written}");
        desk.stub.heal();
    }
    assert_eq!(Permission::Read.to_string(), "read");
}

/// The answer to a commit can be lost after the hub made the commit.
#[test]
fn a_commit_whose_answer_is_lost_is_found() {
    let desk = Desk::new();
    let large = desk.large("a.safetensors", &weights("a", 1));
    let additions = [large, small("notes.txt", b"x")];
    let commit = |parent: &str| {
        desk.hub.commit(
            &desk.repository,
            &NewCommit {
                branch: "main",
                parent,
                summary: "Add a file",
                description: "More about it.",
                additions: &additions,
            },
        )
    };
    let lose = |times, no_history| {
        desk.stub.inject(Fault {
            path: "/commit/".into(),
            times: Some(times),
            lost: Some(503),
            ..Fault::default()
        });
        if no_history {
            desk.stub.inject(Fault {
                path: "/commits/".into(),
                status: Some(404),
                ..Fault::default()
            });
        }
    };
    for no_history in [false, true] {
        let parent = desk.head();
        lose(1, no_history);
        let made = commit(&parent).unwrap();
        desk.stub.heal();
        assert_eq!(made, desk.head());
        assert_ne!(made, parent);
    }
    // A commit by another client is not mistaken for the worker's own.
    let parent = desk.head();
    let other = desk.commit(&[small("notes.txt", b"other")]);
    lose(1, false);
    assert!(matches!(
        refusal(commit(&parent)),
        Refusal::ParentMoved { .. }
    ));
    desk.stub.heal();
    assert_eq!(desk.head(), other);
}

/// Work during which `act` runs when the packing begins.
struct AtBegin<F>(F);

impl<F: Fn() + Sync> Progress for AtBegin<F> {
    fn begin(&self, _: u64) {
        (self.0)();
    }

    fn advance(&self, _: u64) {}
}

/// The first of several deltas that finds its base damaged removes the entry of the base,
/// while the others are being packed.
#[test]
fn a_delta_is_retried_if_another_one_reported_the_damage_of_their_base() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let at = Location::from(root.join("results"));
    let results = Results::open(&at, &HttpOptions::default()).unwrap();
    let engine = Engine::new(2).unwrap();
    let (origin, scratch) = (Origin::folder(root), root.join("scratch"));
    let work = RowWork::new(
        &engine,
        origin,
        results.clone(),
        &scratch,
        WorkerOptions::default(),
    );
    let work = work.unwrap();
    let row = |path: &str, bytes: &[u8]| {
        std::fs::create_dir_all(root.join(REPO)).unwrap();
        std::fs::write(root.join(REPO).join(path), bytes).unwrap();
        let (len_bytes, sha256) = (bytes.len() as u64, sha256(bytes));
        Row::new((REPO, "r", path), len_bytes, &sha256, Effort::Balanced)
    };
    let base = row("base.safetensors", &weights("a", 1));
    work.work(&base, None, &()).unwrap();
    let mut delta = row("tuned.safetensors", &weights("a", 2));
    delta.bases = [base.to_base()].into_iter().collect();
    let of = (&*delta.path, &*delta.sha256);
    delta.key = key_against(of, Effort::Balanced, &delta.bases);

    let packed = root
        .join("results/packed")
        .join(format!("{}.zstn", base.key));
    let mut bytes = std::fs::read(&packed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&packed, bytes).unwrap();
    let entry = format!("{}.json", base.key);
    let reported = AtBegin(|| results.remove("done", &entry).unwrap());
    let outcome = work.work(&delta, None, &reported).unwrap();
    let RowOutcome::Failed { class, reason, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(class, Class::Retry, "{reason}");
    assert!(
        reason.contains(&format!("{REPO}/base.safetensors")),
        "{reason}"
    );
}
