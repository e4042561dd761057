//! A web server that accepts or refuses uploads as a test chooses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::lock;

/// A request that the server received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Position of the request among those with the same method, counted from 1.
    pub number: usize,
    /// The method and path.
    pub line: String,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
    /// The request body; `None` if the server did not read it.
    pub body: Option<Vec<u8>>,
}

impl Asked {
    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// A server's action on a PUT request.
#[derive(Debug)]
pub enum Act {
    /// Reads the body, then answers with this status and these header lines.
    Take(&'static str, String),
    /// Answers with this status before reading the body, and closes the connection.
    Refuse(&'static str),
    /// Reads the body and closes the connection without an answer.
    TakeAndClose,
}

/// Returns [`Act::Take`] without header lines.
#[must_use]
pub fn take(status: &'static str) -> Act {
    Act::Take(status, String::new())
}

/// Chooses what to do with a PUT request. Other requests are answered 404.
type Behaviour = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

/// A running server, which serves until the process ends.
#[derive(Debug)]
pub struct UploadServer {
    /// URL to upload to.
    pub url: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl UploadServer {
    /// Starts a server that has no file at its URL.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(behaviour: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        Self::with_head("404 Not Found", behaviour)
    }

    /// Starts a server that answers HEAD requests with the status `head`.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn with_head(
        head: &'static str,
        behaviour: impl Fn(&Asked) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!(
            "http://{}/folder/m.zstn",
            listener.local_addr().expect("an address")
        );
        let log: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let behaviour: Arc<Behaviour> = Arc::new(Box::new(behaviour));
        let shared = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, behaviour) = (Arc::clone(&shared), Arc::clone(&behaviour));
                thread::spawn(move || talk(&stream, head, &log, &**behaviour));
            }
        });
        Self { url, log }
    }

    /// Returns all requests received so far.
    #[must_use]
    pub fn log(&self) -> Vec<Asked> {
        lock(&self.log).clone()
    }

    /// Returns the PUT requests received so far.
    #[must_use]
    pub fn puts(&self) -> Vec<Asked> {
        let log = self.log().into_iter();
        log.filter(|asked| asked.line.starts_with("PUT")).collect()
    }
}

fn talk(
    mut stream: &TcpStream,
    head: &'static str,
    log: &Mutex<Vec<Asked>>,
    behaviour: &(dyn Fn(&Asked) -> Act + Send + Sync),
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut asked = Asked::default();
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        asked.line = line.trim_end().trim_end_matches(" HTTP/1.1").into();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            let header = (name.to_ascii_lowercase(), value.to_owned());
            asked.headers.push(header);
        }
        let method = asked.line.split(' ').next().unwrap_or_default().to_owned();
        asked.number = {
            let log = lock(log);
            1 + log.iter().filter(|a| a.line.starts_with(&method)).count()
        };
        let act = match &*method {
            "PUT" => behaviour(&asked),
            _ => take(head),
        };
        if let Act::Refuse(status) = act {
            lock(log).push(asked);
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")?;
            stream.shutdown(Shutdown::Write)?;
            return io::copy(&mut reader, &mut io::sink()).map(drop);
        }
        if let Some(len) = asked.header("content-length") {
            if asked.header("expect").is_some() {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let mut body = vec![0; len.parse().map_err(io::Error::other)?];
            reader.read_exact(&mut body)?;
            asked.body = Some(body);
        }
        lock(log).push(asked);
        let Act::Take(status, lines) = act else {
            return Ok(());
        };
        let length = match status.starts_with("204") {
            true => "",
            false => "Content-Length: 0\r\n",
        };
        write!(stream, "HTTP/1.1 {status}\r\n{lines}{length}\r\n")?;
    }
}
