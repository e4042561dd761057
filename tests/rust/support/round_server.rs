//! A web server that counts round trips. Requests belong to different rounds if one of
//! them was sent only after the other was answered.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{lock, sha256};

/// Time limit for a round to become complete. Tests that pass never reach it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Delay before a complete round is answered, so that surplus requests are counted in
/// it. Only failing tests send surplus requests.
const GRACE: Duration = Duration::from_millis(100);

/// The answer to requests for a path.
#[derive(Debug, Clone)]
pub enum Page {
    /// These bytes, or the requested range of them.
    File(Vec<u8>),
    /// These bytes with additional header lines.
    FileWith(Vec<String>, Vec<u8>),
    /// A redirect to this URL.
    Redirect(String),
    /// A status such as `404 Not Found`, header lines, and no body.
    Answer(&'static str, Vec<String>),
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path of the requested URL.
    pub path: String,
    /// The requested range, clamped to the file; `None` for the whole file.
    pub range: Option<Range<usize>>,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

#[derive(Debug, Default)]
struct State {
    pages: BTreeMap<String, Arc<Page>>,
    /// Expected sizes of the rounds that have not begun.
    sizes: VecDeque<usize>,
    /// Number of requests waiting in the incomplete round.
    waiting: usize,
    /// Number of complete rounds.
    rounds: usize,
    is_incomplete: bool,
    is_crowded: bool,
    log: Vec<Request>,
    /// The required `Authorization` header; requests without it are answered 401.
    login: Option<String>,
}

/// A running server, which serves until the process ends.
#[derive(Debug)]
pub struct RoundServer {
    /// URL of the server's root, with a trailing slash.
    pub url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl RoundServer {
    /// Starts a server without pages.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || talk(&stream, &state));
            }
        });
        Self { url, state }
    }

    /// Adds the page for `path`, relative to the root, and returns its URL.
    pub fn add(&self, path: &str, page: Page) -> String {
        let page = Arc::new(page);
        lock(&self.state.0).pages.insert(format!("/{path}"), page);
        format!("{}{path}", self.url)
    }

    /// Makes the server answer 401 to every request without this `Authorization`
    /// header.
    pub fn demand(&self, authorization: &str) {
        lock(&self.state.0).login = Some(authorization.into());
    }

    /// Makes the server answer the next requests in rounds of exactly these sizes: it
    /// answers no request of a round before all of them have arrived. Requests after
    /// the last round are answered at once.
    pub fn expect_rounds(&self, sizes: &[usize]) {
        let mut state = lock(&self.state.0);
        state.sizes = sizes.iter().copied().collect();
        state.log.clear();
        state.rounds = 0;
    }

    /// Returns the requests received since the last call of
    /// [`RoundServer::expect_rounds`].
    ///
    /// # Panics
    /// If the number of requests in a round differs from the expected one.
    #[must_use]
    pub fn finished_rounds(&self) -> Vec<Request> {
        let state = lock(&self.state.0);
        assert!(!state.is_crowded, "a round had more requests than expected");
        assert!(
            !state.is_incomplete && state.sizes.is_empty() && state.waiting == 0,
            "{} requests in {} complete rounds; still expected: {:?}",
            state.log.len(),
            state.rounds,
            state.sizes
        );
        state.log.clone()
    }
}

/// Adds a request to its round and waits for the others.
fn wait((mutex, changed): &(Mutex<State>, Condvar), request: &Request) {
    let mut state = lock(mutex);
    state.log.push(request.clone());
    if let Some(&size) = state.sizes.front() {
        state.waiting += 1;
        let round = state.rounds;
        state.is_crowded |= state.waiting > size;
        if state.waiting == size {
            drop(state);
            thread::sleep(GRACE);
            state = lock(mutex);
            state.sizes.pop_front();
            state.waiting = 0;
            state.rounds += 1;
            changed.notify_all();
        }
        let is_open = |state: &mut State| state.rounds == round && !state.is_incomplete;
        let (mut state, timeout) = changed
            .wait_timeout_while(state, PATIENCE, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            state.is_incomplete = true;
            changed.notify_all();
        }
    }
}

fn talk(stream: &TcpStream, state: &(Mutex<State>, Condvar)) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let path = lines.next()?.split(' ').nth(1)?.to_owned();
        let headers = lines.by_ref().take_while(|line| !line.is_empty());
        let headers = headers.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        let mut request = Request {
            headers: headers.collect(),
            path,
            range: None,
        };
        let path = request.path.split('?').next()?;
        let (mut page, login) = {
            let state = lock(&state.0);
            (state.pages.get(path).cloned(), state.login.clone())
        };
        if login.is_some() && request.header("authorization") != login.as_deref() {
            page = Some(Arc::new(Page::Answer("401 Unauthorized", Vec::new())));
        }
        if let (Some(Page::File(bytes) | Page::FileWith(_, bytes)), Some(range)) =
            (page.as_deref(), request.header("range"))
        {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let end = last.parse().map_or(bytes.len(), |last: usize| last + 1);
            request.range = Some(first.parse().ok()?..end.min(bytes.len()));
        }
        wait(state, &request);
        answer(stream, page.as_deref(), request.range).ok()?;
    }
}

fn answer(mut to: &TcpStream, page: Option<&Page>, range: Option<Range<usize>>) -> io::Result<()> {
    let (status, line, body) = match (page, range) {
        (None, _) => ("404 Not Found", String::new(), &[][..]),
        (Some(Page::Answer(status, lines)), _) => {
            let lines = lines.iter().map(|line| format!("{line}\r\n"));
            (*status, lines.collect(), &[][..])
        }
        (Some(Page::Redirect(url)), _) => ("302 Found", format!("Location: {url}\r\n"), &[][..]),
        (Some(Page::File(bytes) | Page::FileWith(_, bytes)), None) => {
            ("200 OK", String::new(), &bytes[..])
        }
        (Some(Page::File(bytes) | Page::FileWith(_, bytes)), Some(range)) => {
            let (first, last, total) = (range.start, range.end - 1, bytes.len());
            let line = format!("Content-Range: bytes {first}-{last}/{total}\r\n");
            ("206 Partial Content", line, &bytes[range])
        }
    };
    let more = match page {
        Some(Page::FileWith(lines, _)) => lines.iter().map(|line| format!("{line}\r\n")).collect(),
        _ => String::new(),
    };
    let len = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\n{line}{more}Content-Length: {len}\r\nETag: \"1\"\r\n\r\n");
    to.write_all(&[head.as_bytes(), body].concat())
}

/// Maximum length in bytes of the files that the hub itself serves.
const SMALL_BYTES: usize = 1000;

/// A model hub that serves repositories with commits, and redirects to a second server
/// for large files. It serves until the process ends.
#[derive(Debug)]
pub struct Hub {
    /// The server of the hub itself.
    pub server: RoundServer,
    /// The server of large files, on another origin.
    pub storage: RoundServer,
}

impl Hub {
    /// Starts a hub without repositories.
    #[must_use]
    pub fn start() -> Self {
        Self {
            server: RoundServer::start(),
            storage: RoundServer::start(),
        }
    }

    /// Returns the URL of the hub without a trailing slash.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.server.url.trim_end_matches('/')
    }

    /// Adds files of `repository` at `revision`, a branch or commit. The responses
    /// state that they belong to `commit`. File names and revisions are percent-encoded
    /// as in URLs.
    pub fn add(&self, repository: &str, revision: &str, commit: &str, files: &[(&str, &[u8])]) {
        for (name, bytes) in files {
            let digest = sha256(bytes);
            let commit = format!("X-Repo-Commit: {commit}");
            let page = if bytes.len() <= SMALL_BYTES {
                Page::FileWith(vec![commit], bytes.to_vec())
            } else {
                let place = self.storage.add(&digest, Page::File(bytes.to_vec()));
                let lines = vec![
                    commit,
                    format!("Location: {place}?signature=secret"),
                    format!("X-Linked-Etag: \"{digest}\""),
                    format!("X-Linked-Size: {}", bytes.len()),
                ];
                Page::Answer("302 Found", lines)
            };
            let path = format!("{repository}/resolve/{revision}/{name}");
            self.server.add(&path, page);
        }
    }

    /// Makes the hub refuse requests for a file in `main` with a status, an error code
    /// and a message.
    pub fn refuse(&self, file: &str, status: &'static str, code: &str, message: &str) {
        let (repository, name) = file.rsplit_once('/').unwrap_or_default();
        let lines = [("X-Error-Code", code), ("X-Error-Message", message)];
        let lines = lines.iter().filter(|(_, value)| !value.is_empty());
        let lines = lines.map(|(name, value)| format!("{name}: {value}"));
        let page = Page::Answer(status, lines.collect());
        self.server
            .add(&format!("{repository}/resolve/main/{name}"), page);
    }
}
