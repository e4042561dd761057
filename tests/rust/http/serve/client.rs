//! Starts servers under test and sends raw requests to them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use zstn_serve::Server;

/// Creates a server for `folder` on a free port.
pub fn bind(folder: &Path) -> Server {
    Server::bind(folder, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Returns the address that `server` listens on.
pub fn address(server: &Server) -> SocketAddr {
    let url = server.url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address.parse().unwrap()
}

/// Runs `server` until the test process ends. Returns its address.
pub fn run(server: Server) -> SocketAddr {
    let address = address(&server);
    std::thread::spawn(move || server.run(|_| ()));
    address
}

/// Serves `folder` until the test process ends. Returns the address.
pub fn serve(folder: &Path) -> SocketAddr {
    run(bind(folder).with_cache(1 << 20))
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns whether the body has the length that the head states.
    pub fn is_complete(&self) -> bool {
        self.header("content-length") == Some(self.body.len().to_string().as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends exactly these bytes and reads until the server closes or resets the
/// connection.
pub fn exchange(server: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.expect("a head") + 4);
    let head = String::from_utf8(answer).unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body,
    }
}

/// Sends a request for the host `localhost`, unless `headers` contain another `Host`.
pub fn ask(server: SocketAddr, method: &str, path: &str, headers: &[&str]) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request += "Host: localhost\r\n";
    }
    for header in headers {
        request += header;
        request += "\r\n";
    }
    exchange(server, (request + "\r\n").as_bytes())
}

pub fn get(server: SocketAddr, path: &str, headers: &[&str]) -> Answer {
    ask(server, "GET", path, headers)
}
