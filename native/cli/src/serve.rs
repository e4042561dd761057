//! `zstn serve`, and the options of all verbs that listen at an address.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use zstn::{Error, Result};
use zstn_core::catalog::{FileKind, IndexName, has_extension};
use zstn_serve::{CACHE_BYTES, MAX_TENSOR_BYTES, Note, Served, Server};

use super::{print, say, signals, size};

#[derive(Args)]
pub struct Options {
    /// Folder to serve
    #[arg(default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    pub listen: Listen,
    /// Follow links that lead out of FOLDER if they lead into DIR (repeatable)
    #[arg(long, value_name = "DIR")]
    follow_links_in: Vec<PathBuf>,
}

impl Options {
    fn server(&self) -> Result<Server> {
        let listen = &self.listen;
        let mut server = Server::bind(&self.folder, listen.address()?)?
            .with_cache(listen.cache)
            .with_max_tensor(listen.max_tensor)
            .with_host(&listen.host);
        for name in &listen.allow_host {
            server = server.with_host(name);
        }
        for origin in &listen.cors {
            server = server.with_origin(origin)?;
        }
        for folder in &self.follow_links_in {
            server = server.with_links_in(folder)?;
        }
        // If this program does not contain the viewer, the files are served without it.
        if let Ok(page) = zstn_serve::Page::included() {
            server = server.with_viewer(page);
        }
        Ok(server)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let signals = signals::catch();
    let server = options.server()?;
    let handle = server.handle();
    signals.end_with(move || handle.stop());
    let what = format!("serving {}", options.folder.display());
    options.listen.announce(&what, &server.url());
    if !options.listen.json {
        if let Some(viewer) = server.viewer_url() {
            say!("look inside at {viewer}{}", viewer_query(&options.folder));
        }
        say!("stop with Ctrl-C");
    }
    server.run(options.listen.log())
}

/// Returns the query that opens the first model in `folder`, or an empty string if
/// there is none.
fn viewer_query(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut models: Vec<_> = names
        .filter_map(|name| Some((rank(&name)?, name)))
        .collect();
    models.sort();
    models.first().map_or_else(String::new, |(_, name)| {
        format!("?src=../{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
    })
}

/// Returns the precedence of a file: indices of sharded models come first, then
/// packed files.
fn rank(name: &str) -> Option<usize> {
    if name.starts_with('.') {
        return None;
    }
    if IndexName::parse(name).is_some() {
        return Some(0);
    }
    let mut kinds = FileKind::FILES.iter();
    let kind = kinds.find(|kind| has_extension(name, **kind))?;
    match kind {
        // A delta is opened together with its base.
        FileKind::Delta => None,
        FileKind::Zstn => Some(1),
        _ => Some(2),
    }
}

#[derive(Args)]
pub struct Listen {
    /// Port, 0 for any free port
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address or name to listen at; 0.0.0.0 makes the server reachable from other
    /// machines
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub host: String,
    /// Accept requests for this host name, in addition to IP addresses and localhost
    /// (repeatable)
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Allow pages of this origin to read the files, like https://example.org, or * for
    /// all; pages on this machine are always allowed (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub cors: Vec<String>,
    /// Memory for decoded tensors, like 512M [default: 256M]
    #[arg(long, default_value_t = CACHE_BYTES, hide_default_value = true, value_name = "SIZE", value_parser = size::parse)]
    pub cache: u64,
    /// Refuse tensors longer than SIZE that can only be decoded as a whole [default:
    /// 512M]
    #[arg(long, default_value_t = MAX_TENSOR_BYTES, hide_default_value = true, value_name = "SIZE", value_parser = size::parse)]
    pub max_tensor: u64,
    /// Print one JSON object per line: the address, then every request (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Listen {
    pub fn address(&self) -> Result<SocketAddr> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, self.port));
        }
        let fail = |error| Error::io(format!("listen at {}", self.host), error);
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let first = found.map_err(fail)?.next();
        first.ok_or_else(|| fail(io::Error::other("the name has no address")))
    }

    /// Prints the server's address `url`.
    pub fn announce(&self, what: &str, url: &str) {
        announce(match self.json {
            true => print(serde_json::json!({"event": "listening", "url": url})),
            false => print(format!("{what} at {url}")),
        });
    }

    /// Returns a function that prints a line about a request.
    pub fn log(&self) -> impl Fn(Served) + Send + Sync + use<> {
        let json = self.json;
        move |served: Served| {
            // The server continues even if the reader of its log has closed the pipe.
            let _ = match json {
                true => print(request_json(&served)),
                false => {
                    let hint = served.note.as_ref().and_then(hint);
                    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                    print(format!("{served}{hint}"))
                }
            };
        }
    }
}

/// Prints a warning if the server's address could not be printed. The server continues,
/// because it may have a fixed port and no reader.
pub fn announce(printed: Result<()>) {
    if let Err(error) = printed {
        say!("warning: {error}");
    }
}

/// Returns the log entry of a request for `--json`.
pub fn request_json(served: &Served) -> serde_json::Value {
    serde_json::json!({
        "event": "request",
        "method": served.method,
        "path": served.path,
        "range": served.range,
        "status": served.status,
        "bytes": served.body_bytes,
        "note": served.note.as_ref().map(|note| match hint(note) {
            Some(hint) => format!("{note}; {hint}"),
            None => note.to_string(),
        }),
    })
}

/// Returns a hint about the option that would allow the request.
fn hint(note: &Note) -> Option<String> {
    match note {
        Note::UnknownHost { name, .. } => Some(format!("--allow-host {name} adds it")),
        Note::LinkOutside { folder, .. } => {
            Some(format!("--follow-links-in {} serves it", folder.display()))
        }
        Note::ForeignOrigin { origin, .. } => Some(format!("--cors {origin} lets them")),
        _ => None,
    }
}
