//! `zstn serve`

use std::path::PathBuf;

use clap::Args;
use zstn::Result;
use zstn_serve::Server;

use super::listen::Listen;
use super::{say, stop};

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
    let signals = stop::catch();
    let server = options.server()?;
    let handle = server.handle();
    signals.end_with(move || handle.stop());
    let what = format!("serving {}", options.folder.display());
    options.listen.announce(&what, &server.url());
    if !options.listen.json {
        if let Some(viewer) = server.viewer_url() {
            say!("look inside at {viewer}{}", viewer::query(&options.folder));
        }
        say!("stop with Ctrl-C");
    }
    server.run(options.listen.log())
}

/// The printed link to the viewer.
mod viewer {
    use std::fs;
    use std::path::Path;

    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use zstn_core::catalog::{IndexName, Kind};

    /// Returns the query that opens the first model in `folder`, or an empty string if
    /// there is none.
    pub fn query(folder: &Path) -> String {
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
        let (_, extension) = name.rsplit_once('.')?;
        let mut kinds = Kind::FILES.iter();
        let kind = kinds.find(|kind| kind.extension() == extension)?;
        match kind {
            // A delta is opened together with its base.
            Kind::Delta => None,
            Kind::Zstn => Some(1),
            _ => Some(2),
        }
    }
}
