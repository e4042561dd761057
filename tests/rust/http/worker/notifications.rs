//! Notifications: which senders are accepted, and which jobs result.

use zstn::PackOptions;
use zstn_hub::hub::NewCommit;
use zstn_hub::worker::{Stage, Worker, WorkerOptions};
use zstn_tests::http_request::request;
use zstn_tests::stub_hub::RepoId;

use super::{Desk, REPO, Running, SECRET, names, packed, payload, post, post_with, wait, weights};

#[test]
fn only_the_secret_gives_work() {
    let desk = Desk::new();
    let worker = desk.unnotified_worker();
    let (old, new) = ("0".repeat(40), "1".repeat(40));
    let body = payload(&old, &new);
    assert_eq!(post(&worker.url, None, &body).0, 401);
    for forged in [
        "",
        "the secret of the webhoox",
        "the secret",
        "the secret of the webhook!",
    ] {
        assert_eq!(post(&worker.url, Some(forged), &body).0, 403, "{forged}");
    }
    assert_eq!(post(&worker.url, Some(SECRET), "{}").0, 400);
    assert_eq!(post(&worker.url, Some(SECRET), "no").0, 400);
    // The server may close the connection before the whole body is sent.
    let headers = [
        ("content-type", "application/json"),
        ("x-webhook-secret", SECRET),
    ];
    let long = request("POST", &worker.url, &headers, " ".repeat(2 << 20));
    assert!(long.map_or(true, |(status, _)| status >= 400));
    assert_eq!(
        post(&format!("{}else", worker.url), Some(SECRET), &body).0,
        404
    );
    assert!(names(&desk.jobs("queued")).is_empty());
    assert!(worker.events().is_empty());
}

#[test]
fn pages_give_no_work() {
    let desk = Desk::new();
    let address = ([127, 0, 0, 1], 0).into();
    let options = WorkerOptions::default();
    let worker = Worker::bind(&desk.hub, &desk.state(), address, options);
    let worker = Running::new(worker.unwrap());
    let body = payload(&"0".repeat(40), &desk.head());
    let json = ("content-type", "application/json");
    for (status, headers) in [
        (415, &[("content-type", "text/plain;charset=UTF-8")][..]),
        (403, &[json, ("origin", "https://site.example")]),
        (403, &[json, ("origin", "null")]),
        // The name of a foreign site that resolves to this machine.
        (421, &[json, ("host", "rebound.example")]),
    ] {
        let answer = post_with(&worker.url, None, headers, &body);
        assert_eq!(answer.0, status, "{headers:?} {answer:?}");
    }
    assert!(worker.events().is_empty());
    let json = ("content-type", "application/json; charset=utf-8");
    assert_eq!(post_with(&worker.url, None, &[json], &body).0, 202);
}

#[test]
fn a_replay_is_one_job() {
    let desk = Desk::new();
    let worker = desk.unnotified_worker();
    let old = desk.head();
    let new = desk.push(&[("model.safetensors", &weights("a", 1))]);
    let check = |worker: &Running, state: &str| {
        let (status, answer) = worker.notify(&old, &new);
        assert_eq!(
            (status, answer["jobs"][0]["state"].as_str()),
            (202, Some(state))
        );
    };
    check(&worker, "queued");
    check(&worker, "known");
    worker.wait(Stage::Committed, 1);
    let requests = desk.stub.log().len();
    check(&worker, "known");
    drop(worker);
    // Another worker that shares the queue also knows the job.
    check(&desk.unnotified_worker(), "known");
    assert_eq!(desk.stub.log().len(), requests);
}

#[test]
fn commits_of_other_workers_are_left_alone() {
    let desk = Desk::new();
    let (old, file) = (desk.head(), weights("a", 1));
    let first = desk.push(&[("a.safetensors", &file)]);
    let packed = packed(&file, &PackOptions::default());
    // The commit adds only a packed file, so the worker does not pack other files.
    let second = desk.push(&[("other.zstn", &packed)]);
    let worker = desk.unnotified_worker();
    worker.notify(&first, &second);
    let nothing = worker.wait(Stage::Nothing, 1);
    assert_eq!(nothing.detail.as_deref(), Some("the commit of a worker"));
    assert!(!desk.has("a.zstn"));
    worker.notify(&old, &first);
    worker.wait(Stage::Committed, 1);
    assert!(desk.has("a.zstn"));
}

#[test]
fn a_message_alone_makes_no_commit_of_a_worker() {
    let desk = Desk::new();
    let (before, bytes) = (desk.head(), weights("a", 1));
    // The message of a squashed or amended commit can look like this.
    let commit = NewCommit {
        branch: "main",
        parent: &before,
        summary: "Squashed",
        description: "Packed-by: zstn 0.1.0",
        additions: &[desk.large("a.safetensors", &bytes)],
    };
    let new = desk.hub.commit(&desk.repository, &commit).unwrap();
    let worker = desk.unnotified_worker();
    worker.notify(&before, &new);
    worker.wait(Stage::Committed, 1);
    assert!(desk.unpacked("a.zstn") == bytes);
}

#[test]
fn a_branch_that_was_set_back_is_packed_again() {
    let desk = Desk::new();
    let (before, bytes) = (desk.head(), weights("a", 1));
    let new = desk.push(&[("a.safetensors", &bytes)]);
    let worker = desk.unnotified_worker();
    worker.notify(&before, &new);
    worker.wait(Stage::Committed, 1);
    let finished = || names(&desk.jobs("queued")).is_empty();
    wait(finished, || "the end of the job".into());
    let packed = desk.head();
    desk.stub.set_main(&RepoId::model(REPO), &new);
    let answer = worker.notify(&packed, &new).1;
    assert_eq!(answer["jobs"][0]["state"], "queued");
    worker.wait(Stage::Committed, 2);
    assert!(desk.unpacked("a.zstn") == bytes);
}

#[test]
fn a_job_that_is_being_given_up_is_not_lost() {
    let desk = Desk::new();
    let worker = desk.unnotified_worker();
    let (old, new) = ("0".repeat(40), desk.head());
    // While a job is given up, it is in both folders for a moment, and no other worker
    // may take it.
    let job = serde_json::json!({
        "repo": REPO, "branch": "main", "revision": new, "before": old,
        "not_before": 1_u64 << 40,
    });
    let jobs = desk.state().join("jobs");
    let name = format!("models+me+model@{new}.json");
    for folder in ["failed", "queued"] {
        std::fs::write(jobs.join(folder).join(&name), job.to_string()).unwrap();
    }
    let answer = worker.notify(&old, &new).1;
    assert_eq!(answer["jobs"][0]["state"], "known");
    assert_eq!(names(&jobs.join("failed")), [name]);
}

#[test]
fn two_workers_share_a_queue() {
    let desk = Desk::new();
    let workers = [desk.unnotified_worker(), desk.unnotified_worker()];
    let mut before = desk.head();
    let mut files = Vec::new();
    for number in 0..4 {
        let path = format!("{number}.safetensors");
        let bytes = weights("a", number + 1);
        let commit = desk.push(&[(&path, &bytes)]);
        for worker in &workers {
            worker.notify(&before, &commit);
        }
        before = desk.head();
        files.push((format!("{number}.zstn"), bytes));
    }
    wait(
        || names(&desk.jobs("finished")).len() == 4,
        || format!("{:?} {:?}", workers[0].events(), workers[1].events()),
    );
    for (path, bytes) in &files {
        assert!(desk.unpacked(path) == *bytes, "{path}");
    }
    let packed: usize = workers
        .iter()
        .map(|worker| worker.count(Stage::Packed))
        .sum();
    assert_eq!(packed, 4);
    let started: usize = workers
        .iter()
        .map(|worker| worker.count(Stage::Started))
        .sum();
    assert_eq!(started, 4);
}

#[test]
fn health_and_figures_are_served() {
    let desk = Desk::new();
    let worker = desk.worker();
    desk.push(&[("model.safetensors", &weights("a", 1))]);
    worker.wait(Stage::Committed, 1);
    worker.wait(Stage::Nothing, 1);
    let get = |path: &str| {
        let url = format!("{}{path}", worker.url);
        let (status, text) = request("GET", &url, &[], "").unwrap();
        assert_eq!(status, 200);
        text
    };
    assert_eq!(get("healthz"), "ok\n");
    let figures = get("metrics");
    assert!(
        figures.contains("zstn_worker_events_total{stage=\"packed\"} 1"),
        "{figures}"
    );
    assert!(figures.contains("zstn_worker_queued_jobs 0"), "{figures}");
}
