//! `zstn gateway`: serves a model hub that shows packed files as the originals.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zstn::{Error, Location, Result};
use zstn_hub::gateway::Gateway;
use zstn_hub::manifest::load_plan;
use zstn_serve::{CACHE_BYTES, Limits};

use super::network::Patience;
use super::serve::Listen;
use super::{say, signals, size};

#[derive(Args)]
pub struct Options {
    /// Hub whose packed files are shown unpacked (https://…), or a folder with
    /// repositories in OWNER/NAME: DIR, s3://…, az://…, gs://…
    #[arg(long, value_name = "URL|DIR", default_value = "https://huggingface.co")]
    upstream: String,
    /// Show the files of this plan (docs/whole-hub.md), whose results are in the
    /// upstream, a folder (repeatable)
    #[arg(long, value_name = "PLAN.jsonl", requires = "upstream")]
    plan: Vec<PathBuf>,
    /// Disk space for files restored from deltas of a plan
    #[arg(long, default_value = "32G", value_name = "SIZE", value_parser = size::parse, requires = "plan")]
    restored: u64,
    #[command(flatten)]
    pub listen: Listen,
    /// Memory for cached blocks of packed files, like 1G [default: 256M]
    #[arg(long, default_value_t = CACHE_BYTES, hide_default_value = true, value_name = "SIZE", value_parser = size::parse)]
    upstream_cache: u64,
    /// Check again after this time whether a client may read a file
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    recheck: u64,
    /// Number of answers in progress; 64 more connections may wait or be idle
    #[arg(long, default_value_t = 4096, value_name = "N")]
    connections: usize,
    /// Number of answers in progress per address, 0 for three quarters of --connections
    #[arg(long, default_value_t = 0, value_name = "N")]
    connections_per_address: usize,
    /// Time for answers in progress when the gateway is stopped (Ctrl-C, SIGTERM,
    /// SIGHUP)
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    grace: u64,
    #[command(flatten)]
    patience: Patience,
}

impl Options {
    fn gateway(&self) -> Result<Gateway> {
        let listen = &self.listen;
        let upstream = match Location::is_url(&self.upstream) {
            true => Location::url(&self.upstream),
            false => Location::from(&self.upstream),
        };
        let (address, http) = (listen.address()?, self.patience.options()?);
        let bound = match &self.plan[..] {
            [] => Gateway::bind(&upstream, address, &http),
            plans => {
                if upstream.origin().is_some() {
                    return Err(Error::Usage(
                        "with --plan, --upstream must be the folder of its results".into(),
                    ));
                }
                let rows: Result<Vec<_>> = plans.iter().map(|plan| load_plan(plan)).collect();
                let rows = rows?.into_iter().flatten().collect();
                Gateway::bind_planned(&upstream, rows, self.restored, address, &http)
            }
        };
        let mut gateway = bound?
            .with_cache(listen.cache)
            .with_max_tensor(listen.max_tensor)
            .with_upstream_cache(self.upstream_cache)
            .with_trust(Duration::from_secs(self.recheck))
            .with_limits(Limits {
                connections: self.connections,
                connections_per_address: self.connections_per_address,
                grace: Duration::from_secs(self.grace),
                ..Limits::default()
            })
            .with_host(&listen.host);
        for name in &listen.allow_host {
            gateway = gateway.with_host(name);
        }
        for origin in &listen.cors {
            gateway = gateway.with_origin(origin)?;
        }
        Ok(gateway)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let signals = signals::catch();
    let gateway = options.gateway()?;
    let handle = gateway.handle();
    signals.end_with(move || handle.stop());
    let url = gateway.url();
    let what = format!("gateway to {}", zstn::display::address(&options.upstream));
    options.listen.announce(&what, &url);
    if !options.listen.json {
        say!("export HF_ENDPOINT={}", url.trim_end_matches('/'));
        say!("stop with Ctrl-C");
    }
    gateway.run(options.listen.log())
}
