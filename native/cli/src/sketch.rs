//! `zstn sketch`: writes the signature with which `--base auto` compares checkpoints.

use clap::Args;
use serde_json::json;
use zstn::family::{self, Digests, SketchOptions};
use zstn::{Job, Location, Result};

use super::arguments::{self, Destination, Overwrite, Report, Threads};
use super::base_options::Bases;
use super::network::{FullDownload, Network};
use super::outputs::{Naming, Outputs};
use super::progress::Direction;
use super::{Outcome, each, pack, print, progress, say, size};

#[derive(Args)]
pub struct Options {
    /// Checkpoints of any kind: files, .index.json of shards, or local folders, as
    /// paths or addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    bases: Bases,
    /// Fetch whole plain checkpoints from servers to digest their tensors; otherwise
    /// only samples are fetched. Local files are always digested, and packed files
    /// contain digests
    #[arg(long)]
    digests: bool,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    full_download: FullDownload,
    #[command(flatten)]
    network: Network,
}

pub fn run(options: &Options) -> Outcome {
    let destinations = options
        .outputs
        .destinations(&options.inputs, &Naming::Sketch)?;
    let http = options
        .network
        .options_for(&options.inputs, &destinations)?;
    let http = options.full_download.add_to(options.report.watch(http));
    let job = Job::new().engine(&options.threads.engine()?).http(http);
    let inputs = options.inputs.iter().zip(&destinations);
    each(inputs, options.report.json, |(input, destination)| {
        options.one(&job, input, destination)
    })
}

impl Options {
    fn one(&self, job: &Job, input: &Location, destination: &Destination) -> Result<()> {
        let sink = self.overwrite.sink(destination)?;
        let bar = progress::watch("sketching", Direction::Reading, self.report);
        let sketching = SketchOptions::default().digests(match self.digests {
            true => Digests::All,
            false => Digests::Local,
        });
        let sketching = self.bases.add_to(sketching, |o, base| o.base(base));
        let saved = family::save_sketch(&job.clone().progress(&bar), input, sink, &sketching);
        drop(bar);
        let saved = saved?;
        let sketch = &saved.sketch;
        let tensors = sketch.tensors();
        let digested = tensors.iter().filter(|tensor| tensor.digest.is_some());
        let digested = digested.count();
        if self.report.json {
            return print(json!({
                "input": input.to_string(),
                "bases": self.bases.names(),
                "output": destination.to_string(),
                "original_bytes": sketch.original_len_bytes(),
                "tensors": tensors.len(),
                "digested_tensors": digested,
                "sketch_bytes": saved.len_bytes,
            }));
        }
        if !self.report.quiet {
            say!(
                "{input} → {destination}: {} of {}, {digested} with digests, {}",
                pack::count(tensors.len(), "tensor"),
                size::bytes(sketch.original_len_bytes()),
                size::bytes(saved.len_bytes)
            );
        }
        Ok(())
    }
}
