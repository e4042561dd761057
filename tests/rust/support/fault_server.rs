//! A web server that serves one file and misbehaves as a test chooses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The two versions of the served file.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// The file that is served by default.
    pub bytes: Vec<u8>,
    /// A different file of the same length, for servers whose file changes.
    pub other: Vec<u8>,
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Position of the request, counted from 1.
    pub number: usize,
    /// The method, `GET` or `HEAD`.
    pub method: String,
    /// Path of the requested URL.
    pub path: String,
    /// The requested range, clamped to the file; `None` for the whole file.
    pub range: Option<Range<usize>>,
    /// Value of the `If-Range` header.
    pub if_range: Option<String>,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
}

/// How the server treats the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The connection stays open for the next request.
    Keep,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
}

/// A function that answers one request.
pub trait Behaviour:
    Fn(&Asked, &Served, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static
{
}

impl<F> Behaviour for F where
    F: Fn(&Asked, &Served, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static
{
}

/// A running server, which serves until it is stopped or the process ends.
#[derive(Debug)]
pub struct FaultServer {
    /// URL of the file.
    pub url: String,
    port: u16,
    is_stopped: Arc<AtomicBool>,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl FaultServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(served: Served, behaviour: impl Behaviour) -> Self {
        Self::share(Arc::new(served), behaviour)
    }

    /// Starts a server for a file that is shared with other servers.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn share(served: Arc<Served>, behaviour: impl Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let log: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let is_stopped: Arc<AtomicBool> = Arc::default();
        let shared = (Arc::clone(&log), served, Arc::new(behaviour));
        let stopped = Arc::clone(&is_stopped);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (log, served, behaviour) = shared.clone();
                thread::spawn(move || talk(stream, &log, &served, &*behaviour));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/model"),
            port,
            is_stopped,
            log,
        }
    }

    /// Closes the port. Open connections end when their clients close them.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // The thread that accepts connections blocks until one arrives.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn log(&self) -> Vec<Asked> {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }
}

fn talk(
    mut stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    served: &Served,
    behaviour: &impl Behaviour,
) {
    while let Some((len, mut asked)) = request(&stream, served.bytes.len()) {
        if let Ok(mut log) = log.lock() {
            asked.number = log.len() + 1;
            log.push(asked.clone());
        }
        let then = behaviour(&asked, served, &mut stream);
        if matches!(then, Ok(Then::Reset)) {
            // Closing a connection with an unread request resets it.
            return;
        }
        if stream.read_exact(&mut vec![0; len]).is_err() || !matches!(then, Ok(Then::Keep)) {
            let _ = stream.shutdown(Shutdown::Write);
            hold(&mut stream);
            return;
        }
    }
}

/// Parses the next request and returns it with its length, without removing it from the
/// connection.
fn request(stream: &TcpStream, len_bytes: usize) -> Option<(usize, Asked)> {
    let mut buffer = vec![0; 8192];
    loop {
        let seen = stream.peek(&mut buffer).ok().filter(|seen| *seen > 0)?;
        let text = String::from_utf8_lossy(&buffer[..seen]).into_owned();
        let Some(end) = text.find("\r\n\r\n") else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let mut lines = text[..end].lines();
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
        let field = |name: &str| {
            let found = fields
                .iter()
                .find(|field| field.0.eq_ignore_ascii_case(name));
            found.map(|field| field.1.trim().to_owned())
        };
        let range = field("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let end = last.parse().map_or(len_bytes, |last: usize| last + 1);
            Some(first.parse().ok()?..end.min(len_bytes))
        });
        let headers = fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        let asked = Asked {
            number: 0,
            method: words.next()?,
            path: words.next()?,
            range,
            if_range: field("if-range"),
            headers: headers.collect(),
        };
        return Some((end + 4, asked));
    }
}

/// The `ETag` header line of [`Served::bytes`].
pub const ETAG: &str = "ETag: \"v1\"";

/// Formats a response head from a status line and header lines.
#[must_use]
pub fn head(status: &str, lines: &[&str]) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

/// Returns the head of a 206 response for `range` of a file of `total` bytes whose body
/// has `len` bytes.
fn part_head(range: &Range<usize>, total: impl std::fmt::Display, len: usize) -> Vec<u8> {
    let said = format!(
        "Content-Range: bytes {}-{}/{total}",
        range.start,
        range.end - 1
    );
    let length = format!("Content-Length: {len}");
    head("206 Partial Content", &[&said, &length, ETAG])
}

/// Returns the head and body of the correct answer.
#[must_use]
pub fn right_parts(asked: &Asked, served: &Served) -> (Vec<u8>, Vec<u8>) {
    let body = served.bytes[asked.range.clone().unwrap_or(0..served.bytes.len())].to_vec();
    let head = match &asked.range {
        Some(range) => part_head(range, served.bytes.len(), body.len()),
        None => whole_head(body.len()),
    };
    (head, body)
}

/// Returns the head of a 200 response with the whole file of `len` bytes.
#[must_use]
pub fn whole_head(len: usize) -> Vec<u8> {
    head("200 OK", &[&format!("Content-Length: {len}"), ETAG])
}

/// Sends an answer.
///
/// # Errors
/// If the client has closed the connection.
pub fn send(to: &mut TcpStream, head: &[u8], body: &[u8]) -> io::Result<Then> {
    to.write_all(head)?;
    to.write_all(body)?;
    Ok(Then::Keep)
}

/// Sends the correct answer.
///
/// # Errors
/// If the client has closed the connection.
pub fn right(asked: &Asked, served: &Served, to: &mut TcpStream) -> io::Result<Then> {
    let (head, body) = right_parts(asked, served);
    let body = if asked.method == "HEAD" { &[] } else { &*body };
    send(to, &head, body)
}

/// Sends the correct head and the first `len` bytes of the body.
///
/// # Errors
/// If the client has closed the connection.
pub fn begin(asked: &Asked, served: &Served, to: &mut TcpStream, len: usize) -> io::Result<()> {
    let (head, body) = right_parts(asked, served);
    to.write_all(&head)?;
    to.write_all(&body[..len.min(body.len())])
}

/// Keeps the connection open until the client closes it.
pub fn hold(stream: &mut TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
}

/// Sends the bytes slowly, one at a time, until the client closes the connection.
///
/// # Errors
/// If the client has closed the connection.
pub fn drip(to: &mut TcpStream, bytes: impl IntoIterator<Item = u8>) -> io::Result<Then> {
    for byte in bytes {
        to.write_all(&[byte])?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(Then::Close)
}

/// Sends the bytes repeatedly until the client closes the connection.
///
/// # Errors
/// When the client has closed the connection.
pub fn pour(to: &mut TcpStream, bytes: &[u8]) -> io::Result<Then> {
    loop {
        to.write_all(bytes)?;
    }
}
