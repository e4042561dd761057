//! `zstn unpack`: restores the original, byte for byte.

use std::time::Instant;

use clap::Args;
use serde_json::json;
use zstn::{Job, Location, Result, UnpackOptions};

use super::arguments::{self, Destination, Memory, Overwrite, Report, Threads};
use super::base_options::Bases;
use super::network::Network;
use super::outputs::{Naming, Outputs};
use super::pack::{count, folder_json, output_json, say_others, say_upload, upload_json};
use super::progress::Direction;
use super::{Outcome, each, print, progress, say, size};

#[derive(Args)]
pub struct Options {
    /// Packed files, .index.json of packed shards, or local folders: paths,
    /// addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

impl Options {
    fn one(&self, job: &Job, input: &Location, destination: &Destination) -> Result<()> {
        let sink = self.overwrite.sink(destination)?;
        let started = Instant::now();
        let bar = progress::watch("unpacking", Direction::Reading, self.report);
        let unpacking = self
            .bases
            .add_to(UnpackOptions::default(), |o, base| o.base(base));
        let report = zstn::unpack(&job.clone().progress(&bar), input, sink, &unpacking);
        drop(bar);
        let report = report?;
        let seconds = started.elapsed().as_secs_f64();
        if self.report.json {
            let files = report.files.iter().map(|file| {
                json!({
                    "input": file.input,
                    "output": output_json(file.output.as_deref()),
                    "original_bytes": file.original_bytes,
                    "packed_bytes": file.packed_bytes,
                    "upload": upload_json(file.upload),
                })
            });
            return print(json!({
                "input": input.to_string(),
                "bases": self.bases.names(),
                "output": destination.to_string(),
                "original_bytes": report.original_bytes(),
                "packed_bytes": report.packed_bytes(),
                "seconds": seconds,
                "files": files.collect::<Vec<_>>(),
                "folder": report.folder.as_ref().map(folder_json),
            }));
        }
        if !self.report.quiet {
            let files = match &report.folder {
                Some(_) => format!("{}, ", count(report.files.len(), "file")),
                None => String::new(),
            };
            say!(
                "{input} → {destination}: {files}{} → {}, {seconds:.2} s, {}",
                size::bytes(report.packed_bytes()),
                size::bytes(report.original_bytes()),
                size::rate(report.original_bytes(), seconds),
            );
            report.files.iter().for_each(|file| say_upload(file.upload));
            say_packed_name(destination);
        }
        if let Some(folder) = &report.folder {
            say_others(folder, self.report.quiet);
        }
        Ok(())
    }
}

/// Prints a note if the name of a restored file is that of a packed one.
fn say_packed_name(destination: &Destination) {
    let path = destination.path().unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    if let Some(extension @ ("zstn" | "z4dm")) = extension {
        say!("note: {destination} is not packed; files called .{extension} are");
    }
}

pub fn run(options: &Options) -> Outcome {
    let destinations = options
        .outputs
        .destinations(&options.inputs, &Naming::Unpacked)?;
    let http = options
        .network
        .options_for(&options.inputs, &destinations)?;
    let http = options.report.watch(http);
    let job = Job::new().engine(&options.threads.engine()?).http(http);
    let job = options.memory.add_to(job, Job::memory_bytes);
    let inputs = options.inputs.iter().zip(&destinations);
    each(inputs, options.report.json, |(input, destination)| {
        options.one(&job, input, destination)
    })
}
