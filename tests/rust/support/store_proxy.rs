//! A proxy between the library and an object store. It records requests and can answer
//! them itself, change the answers, or close the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::lock;

/// A request that the proxy received.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Raw header lines, without the request line.
    pub headers: String,
    /// Length of the body in bytes.
    pub body_len: usize,
}

impl Request {
    /// Returns whether this request uploads a part of an object. Part number 10000 does
    /// not count: clients use it to check whether an upload exists.
    #[must_use]
    pub fn sends_part(&self) -> bool {
        let s3 = self.target.contains("partNumber=") && !self.target.contains("partNumber=10000");
        self.method == "PUT" && (s3 || self.target.contains("comp=block&"))
    }

    /// Returns whether this request completes a multipart upload.
    #[must_use]
    pub fn completes(&self) -> bool {
        (self.method == "POST" && self.target.contains("uploadId="))
            || (self.method == "PUT" && self.target.contains("comp=blocklist"))
    }

    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}

/// The proxy's action on a request.
#[derive(Debug)]
pub enum Action {
    /// It forwards the request to the store.
    Forward,
    /// It closes the connection without an answer.
    Cut,
    /// It sends these bytes as the whole answer.
    Answer(Vec<u8>),
    /// It forwards the request and changes the store's answer with this function; an
    /// empty result sends nothing.
    Change(fn(Vec<u8>) -> Vec<u8>),
}

type Hook = dyn Fn(&Request) -> Action + Send + Sync;

/// A running proxy, which serves until the process ends.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Proxy {
    /// Starts a proxy to `upstream`, given as `host:port`. The hook chooses the action
    /// for each request.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(
        upstream: &str,
        hook: impl Fn(&Request) -> Action + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (requests, upstream) = (Arc::clone(&log), upstream.to_owned());
        let hook: Arc<Hook> = Arc::new(hook);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (upstream, log) = (upstream.clone(), Arc::clone(&requests));
                let hook = Arc::clone(&hook);
                thread::spawn(move || {
                    // Tests do not depend on the error of a client that disconnects
                    // early.
                    let _ = serve(&stream, &upstream, &log, &*hook);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, log }
    }

    /// Starts a server without a store, which answers every request from `hook`.
    pub fn answering(hook: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start("", move |request| Action::Answer(hook(request)))
    }

    /// Returns the address of the proxy as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.log).clone()
    }

    /// Returns the number of received requests that satisfy `test`.
    pub fn count(&self, test: impl Fn(&Request) -> bool) -> usize {
        self.requests()
            .iter()
            .filter(|request| test(request))
            .count()
    }
}

/// Formats an HTTP answer with a body.
#[must_use]
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// Serves one request; clients open a new connection for each.
fn serve(
    stream: &TcpStream,
    upstream: &str,
    log: &Mutex<Vec<Request>>,
    hook: &Hook,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        headers.push_str(&line);
    }
    let mut words = first.split_whitespace().map(str::to_owned);
    let mut request = Request {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        headers,
        body_len: 0,
    };
    let len = request
        .header("content-length")
        .and_then(|len| len.parse().ok());
    let mut body = vec![0; len.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    request.body_len = body.len();
    lock(log).push(request.clone());
    let change = match hook(&request) {
        Action::Cut => return Ok(()),
        Action::Answer(bytes) => return (&*stream).write_all(&bytes),
        Action::Forward => |bytes| bytes,
        Action::Change(change) => change,
    };
    let mut server = TcpStream::connect(upstream)?;
    let kept = request.headers.lines().filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !name.eq_ignore_ascii_case("connection")
    });
    let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
    server.write_all(format!("{first}{kept}Connection: close\r\n\r\n").as_bytes())?;
    server.write_all(&body)?;
    let mut bytes = Vec::new();
    server.read_to_end(&mut bytes)?;
    (&*stream).write_all(&change(bytes))
}
