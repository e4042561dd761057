//! `zstn serve`

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use zstn::serve::{CACHE_BYTES, Note, Served, Server};
use zstn::{Error, Result};

use super::{print, say, size};

#[derive(Args)]
pub struct Options {
    /// Folder with the files
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Port, 0 for any free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address or name to listen at; other machines reach this one at 0.0.0.0
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,
    /// Answer requests to this name, too, besides addresses and localhost
    /// (repeatable)
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let pages of this origin read the files, like https://example.org, or
    /// * for all; those on this machine always may (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Follow links that lead out of FOLDER where they lead into DIR
    /// (repeatable)
    #[arg(long, value_name = "DIR")]
    follow_links_in: Vec<PathBuf>,
    /// Memory for decoded tensors, like 512M; one tensor may always take what
    /// it needs [default: 256M]
    #[arg(long, default_value_t = CACHE_BYTES, hide_default_value = true, value_name = "SIZE", value_parser = size::parse)]
    cache: u64,
    /// Print one JSON object per line: where it listens, then every request
    /// (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn server(&self) -> Result<Server> {
        let mut server = Server::bind(&self.folder, self.address()?)?
            .with_cache(self.cache)
            .with_host(&self.host);
        for name in &self.allow_host {
            server = server.with_host(name);
        }
        for origin in &self.cors {
            server = server.with_origin(origin)?;
        }
        for folder in &self.follow_links_in {
            server = server.with_links_in(folder)?;
        }
        Ok(server)
    }

    fn address(&self) -> Result<SocketAddr> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, self.port));
        }
        let fail = |error| Error::io(format!("listen at {}", self.host), error);
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let first = found.map_err(fail)?.next();
        first.ok_or_else(|| fail(io::Error::other("the name has no address")))
    }
}

pub fn run(options: &Options) -> Result<()> {
    let server = options.server()?;
    let url = server.url();
    if options.json {
        print(serde_json::json!({"event": "listening", "url": url}))?;
        return server.run(|served| {
            let _ = print(json(&served));
        });
    }
    print(format!("serving {} at {url}", options.folder.display()))?;
    say!("stop with Ctrl-C");
    server.run(|served| {
        let hint = served.note.as_ref().and_then(hint);
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        let _ = print(format!("{served}{hint}"));
    })
}

fn json(served: &Served) -> serde_json::Value {
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

/// Returns which option answers such a request.
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
