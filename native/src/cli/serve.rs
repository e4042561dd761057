//! `zstn serve`

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use zstn::Result;
use zstn::serve::{CACHE_BYTES, Served, Server};

use super::{print, say, size};

#[derive(Args)]
pub struct Options {
    /// Folder with the files
    folder: PathBuf,
    /// Port, 0 for any free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen at; others than this machine see it at 0.0.0.0
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Decoded tensors to keep for the next request, like 512M; the one used
    /// last is always kept [default: 256M]
    #[arg(long, default_value_t = CACHE_BYTES, hide_default_value = true, value_name = "SIZE", value_parser = size::parse)]
    cache: u64,
    /// Print one JSON object per line: where it listens, then every request
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let address = SocketAddr::new(options.host, options.port);
    let server = Server::bind(&options.folder, address)?.with_cache(options.cache);
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
        let _ = print(format!(
            "{} {:<4} {:>8}  {} {}",
            served.status,
            served.method,
            size::bytes(served.body_bytes),
            served.path,
            served.range.unwrap_or_default(),
        ));
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
    })
}
