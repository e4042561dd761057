//! `zstn lfs agent`

use clap::Args;
use zstn::{Location, Result};
use zstn_hub::lfs::{Agent, Store};

use super::super::arguments::{self, Memory, Threads};
use super::super::network::Certificates;
use super::super::pack::Extended;

#[derive(Args)]
pub struct Options {
    /// Store objects in this folder or object store
    #[arg(long, value_name = "LOCATION", value_parser = arguments::location())]
    store: Option<Location>,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    extended: Extended,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
}

pub fn run(options: &Options) -> Result<()> {
    options.certificates.trust()?;
    let mut agent = Agent::new(&options.threads.engine()?).extended(options.extended.is_set());
    if let Some(location) = &options.store {
        agent = agent.store(Store::new(location)?);
    }
    let agent = options.memory.add_to(agent, Agent::memory_bytes);
    agent.run(std::io::stdin().lock(), std::io::stdout())
}
