//! `zstn worker`, from a push to a hub to a commit with the packed files: a hub, a
//! worker, and a user who pushes.

mod failures;
#[cfg(unix)]
mod killed;
mod notifications;
mod packing;
mod plans;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use zstn::{Input, Job, Location, PackOptions, Sink, UnpackOptions};
use zstn_hub::hub::{Addition, Hub, ListedFile, NewCommit, Repository};
use zstn_hub::worker::{Event, JobEvent, Stage, Worker, WorkerOptions};
use zstn_serve::Handle;
use zstn_tests::http_request::request;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, RepoId, Role, StubHub};
use zstn_tests::{checkpoint, sha256};

pub const TOKEN: &str = "hf_the-token-of-the-worker";
pub const SECRET: &str = "the secret of the webhook";
pub const REPO: &str = "me/model";
/// Time limit of every wait; passing tests do not reach it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A hub with a repository, and a client that may write to it.
pub struct Desk {
    pub stub: StubHub,
    pub hub: Hub,
    pub repository: Repository,
    pub folder: TempDir,
}

impl Desk {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(mut options: Options) -> Self {
        options.tokens.push((TOKEN.into(), Role::Write));
        let stub = StubHub::start(options).unwrap();
        stub.add(&RepoId::model(REPO), &[("README.md", b"A model.\n")])
            .unwrap();
        Self {
            hub: Hub::new(stub.url(), Some(TOKEN)).unwrap(),
            stub,
            repository: REPO.parse().unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the folder of the jobs in a state: `queued`, `finished` or `failed`.
    pub fn jobs(&self, state: &str) -> PathBuf {
        self.state().join("jobs").join(state)
    }

    /// Starts a worker that the hub notifies.
    pub fn worker(&self) -> Running {
        self.worker_with(WorkerOptions::default())
    }

    pub fn worker_with(&self, options: WorkerOptions) -> Running {
        let running = self.unnotified_worker_with(options);
        self.notify(&running.url);
        running
    }

    pub fn unnotified_worker(&self) -> Running {
        self.unnotified_worker_with(WorkerOptions::default())
    }

    fn unnotified_worker_with(&self, options: WorkerOptions) -> Running {
        let address = ([127, 0, 0, 1], 0).into();
        let worker = Worker::bind(&self.hub, &self.state(), address, options);
        Running::new(worker.unwrap().with_secret(SECRET))
    }

    /// Makes the hub notify `url` of commits.
    pub fn notify(&self, url: &str) {
        let address = format!("{}/api/settings/webhooks", self.stub.url());
        let body = json!({ "url": url, "secret": SECRET, "watched": [], "domains": ["repo"] });
        let token = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*token)];
        let (status, _) = request("POST", &address, &headers, body.to_string()).unwrap();
        assert_eq!(status / 100, 2);
    }

    pub fn head(&self) -> String {
        self.hub.commit_of(&self.repository, "main").unwrap()
    }

    pub fn files(&self) -> Vec<ListedFile> {
        self.hub.files(&self.repository, "main").unwrap()
    }

    pub fn has(&self, path: &str) -> bool {
        self.files().iter().any(|file| file.path == path)
    }

    /// Commits files as large ones and returns the commit.
    pub fn push(&self, files: &[(&str, &[u8])]) -> String {
        let mut additions = Vec::new();
        for (path, bytes) in files {
            additions.push(match path.ends_with(".json") {
                true => small(path, bytes),
                false => self.large(path, bytes),
            });
        }
        self.commit(&additions)
    }

    pub fn commit(&self, additions: &[Addition]) -> String {
        let parent = self.head();
        let commit = NewCommit {
            branch: "main",
            parent: &parent,
            summary: "Upload",
            description: "",
            additions,
        };
        self.hub.commit(&self.repository, &commit).unwrap()
    }

    pub fn large(&self, path: &str, bytes: &[u8]) -> Addition {
        let local = self.folder.path().join("upload");
        std::fs::write(&local, bytes).unwrap();
        let (digest, len_bytes) = (sha256(bytes), bytes.len() as u64);
        self.hub
            .upload(&self.repository, &local, &digest, len_bytes)
            .unwrap();
        Addition::Large {
            path: path.into(),
            sha256: digest,
            len_bytes,
        }
    }

    /// Restores a packed file of the branch and returns its bytes.
    pub fn unpacked(&self, path: &str) -> Vec<u8> {
        let location = Location::url(self.repository.file_url("main", path));
        let job = Job::new().http(self.hub.http().unwrap());
        let mut restored = Vec::new();
        let sink = Sink::writer(&mut restored);
        zstn::unpack(&job, location, sink, &UnpackOptions::default()).unwrap();
        restored
    }
}

pub fn small(path: &str, bytes: &[u8]) -> Addition {
    Addition::Small {
        path: path.into(),
        bytes: bytes.into(),
    }
}

pub fn weights(name: &str, seed: u64) -> Vec<u8> {
    checkpoint(&[(name, "BF16", &Rng(seed).bf16_weights(40_000))])
}

/// Returns the packed form of a file.
pub fn packed(file: &[u8], options: &PackOptions) -> Vec<u8> {
    let mut packed = Vec::new();
    let sink = Sink::writer(&mut packed);
    zstn::pack(&Job::new(), file.to_vec(), sink, options).unwrap();
    packed
}

/// Returns the file that a packed file restores.
pub fn restored(packed: impl Into<Input>, options: &UnpackOptions) -> Vec<u8> {
    let mut restored = Vec::new();
    let sink = Sink::writer(&mut restored);
    zstn::unpack(&Job::new(), packed, sink, options).unwrap();
    restored
}

/// Posts a notification. Returns the status and the body of the answer.
pub fn post(url: &str, secret: Option<&str>, body: &str) -> (u16, Value) {
    post_with(url, secret, &[("content-type", "application/json")], body)
}

/// Posts a notification with these headers.
pub fn post_with(
    url: &str,
    secret: Option<&str>,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let secret = secret.map(|secret| ("x-webhook-secret", secret));
    let headers: Vec<_> = secret.into_iter().chain(headers.iter().copied()).collect();
    let (status, text) = request("POST", url, &headers, body).unwrap();
    (status, serde_json::from_str(&text).unwrap())
}

/// Returns the notification of a change from `old` to `new`.
pub fn payload(old: &str, new: &str) -> String {
    json!({
        "event": { "action": "update", "scope": "repo.content" },
        "repo": { "type": "model", "name": REPO, "headSha": new },
        "updatedRefs": [{ "ref": "refs/heads/main", "oldSha": old, "newSha": new }],
        "webhook": { "id": "1", "version": 3 },
    })
    .to_string()
}

/// A worker that runs on its own thread.
pub struct Running {
    pub url: String,
    handle: Handle,
    events: Arc<Mutex<Vec<JobEvent>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new(worker: Worker) -> Self {
        Self::logging(worker, |_| {})
    }

    /// Starts a worker that passes events to `other` in addition to recording them.
    pub fn logging(worker: Worker, other: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        let events = Arc::<Mutex<Vec<JobEvent>>>::default();
        let log = Arc::clone(&events);
        Self {
            url: worker.url(),
            handle: worker.handle(),
            thread: Some(thread::spawn(move || {
                let log = move |event| {
                    other(&event);
                    if let Event::Job(event) = event {
                        log.lock().unwrap().push(event);
                    }
                };
                worker.run(log).unwrap();
            })),
            events,
        }
    }

    pub fn events(&self) -> Vec<JobEvent> {
        self.events.lock().unwrap().clone()
    }

    pub fn count(&self, stage: Stage) -> usize {
        self.events()
            .iter()
            .filter(|event| event.stage == stage)
            .count()
    }

    /// Notifies the worker of a change from `old` to `new`. Returns the status and the
    /// body of the answer.
    pub fn notify(&self, old: &str, new: &str) -> (u16, Value) {
        post(&self.url, Some(SECRET), &payload(old, new))
    }

    /// Waits until `count` events of a stage were logged.
    pub fn wait(&self, stage: Stage, count: usize) -> JobEvent {
        let is_there = || self.count(stage) >= count;
        wait(is_there, || {
            let mut text = format!("{count} × {stage:?} in:\n");
            for event in self.events() {
                let _ = writeln!(text, "{event}");
            }
            text
        });
        let mut events = self
            .events()
            .into_iter()
            .filter(|event| event.stage == stage);
        events.nth(count.saturating_sub(1)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until a condition is true.
pub fn wait(mut is_so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {}", what());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the names of the files in a folder, without lock files.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
