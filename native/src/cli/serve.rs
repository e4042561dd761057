//! `zstn serve`

use std::path::PathBuf;

use clap::Args;
use zstn::Result;
use zstn::serve::Server;

use super::listen::Listen;
use super::say;

#[derive(Args)]
pub struct Options {
    /// Folder with the files
    #[arg(default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    pub listen: Listen,
    /// Follow links that lead out of FOLDER where they lead into DIR
    /// (repeatable)
    #[arg(long, value_name = "DIR")]
    follow_links_in: Vec<PathBuf>,
}

impl Options {
    fn server(&self) -> Result<Server> {
        let listen = &self.listen;
        let mut server = Server::bind(&self.folder, listen.address()?)?
            .with_cache(listen.cache)
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
        Ok(server)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let server = options.server()?;
    let what = format!("serving {}", options.folder.display());
    options.listen.announce(&what, &server.url())?;
    if !options.listen.json {
        say!("stop with Ctrl-C");
    }
    server.run(options.listen.log())
}
