//! `zstn verify`

use clap::Args;
use serde_json::json;
use zstn::source::HttpOptions;
use zstn::{Engine, Location, Result, VerifyOptions, VerifyReport};
use zstn_core::catalog::Kind;

use super::arguments::{self, Memory, Report, Stored, Threads};
use super::bases::Bases;
use super::network::{FullDownload, Network};
use super::pack::count;
use super::verbose::Direction;
use super::{Outcome, each, print, progress, say, size};

#[derive(Args)]
pub struct Options {
    /// Files of any kind but plain safetensors, .index.json of sharded
    /// checkpoints, or local folders: paths, addresses, or - for
    /// standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    /// Compare every byte with this one
    #[arg(long, value_name = "ORIGINAL", value_parser = arguments::location())]
    against: Option<Location>,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    stored: Stored,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    full_download: FullDownload,
    #[command(flatten)]
    network: Network,
}

impl Options {
    fn verifying(&self, http: &HttpOptions) -> VerifyOptions<'_> {
        let mut options = VerifyOptions::default()
            .view(self.stored.view())
            .http(http.clone());
        if let Some(original) = &self.against {
            options = options.original(original);
        }
        options = self
            .memory
            .add_to(options, |o, bytes| o.memory_bytes(bytes));
        self.bases.add_to(options, |o, base| o.base(base))
    }

    fn one(&self, engine: &Engine, http: &HttpOptions, input: &Location) -> Result<()> {
        let bar = progress::watch("verifying", Direction::Reading, self.report);
        let report = zstn::verify(engine, input, &self.verifying(http).progress(&bar));
        drop(bar);
        let report = report?;
        if self.report.json {
            let files = report.files.iter().map(|file| {
                json!({
                    "input": file.name,
                    "kind": file.kind.name(),
                    "original_bytes": file.original_bytes,
                    "packed_bytes": file.packed_bytes,
                    "frames": file.frames,
                    "has_digests": file.has_digests,
                    "max_error": file.max_error,
                })
            });
            return print(json!({
                "input": input.to_string(),
                "bases": self.bases.names(),
                "original_bytes": report.original_bytes(),
                "packed_bytes": report.packed_bytes(),
                "frames": report.frames(),
                "has_digests": report.has_digests(),
                "compared": report.compared,
                "max_error": report.max_error(),
                "indexed_tensors": report.indexed_tensors,
                "ok": true,
                "files": files.collect::<Vec<_>>(),
            }));
        }
        if !self.report.quiet {
            self.say(input, &report);
        }
        Ok(())
    }

    fn say(&self, input: &Location, report: &VerifyReport) {
        let is = |kind| report.files.iter().all(|file| file.kind == kind);
        say!(
            "{input}: {}{} {} decode to {}, {}{}",
            match report.files.len() {
                1 => String::new(),
                files => format!("{}, ", count(files, "file")),
            },
            report.frames(),
            match () {
                () if is(Kind::Delta) => "records",
                () if is(Kind::Zstn) => "frames",
                () => "tensors",
            },
            size::bytes(report.original_bytes()),
            match report.indexed_tensors {
                0 => String::new(),
                count => format!("{count} tensors are where the index says, "),
            },
            match (&self.against, report.max_error()) {
                (Some(original), None) => format!("identical to {original}"),
                (Some(original), Some(error)) => {
                    format!("within {error:.3e} of {original}, as promised")
                }
                (None, _) if report.has_digests() => "all checksums match".into(),
                (None, _) if is(Kind::Zstn) => {
                    "as long as the index says (the file holds no digests)".into()
                }
                (None, _) => "as the file says".into(),
            }
        );
    }
}

pub fn run(options: &Options) -> Outcome {
    let http = options.network.options(&options.inputs)?;
    let http = options.full_download.add_to(options.report.watch(http));
    let engine = options.threads.engine()?;
    each(options.inputs.iter(), options.report.json, |input| {
        options.one(&engine, &http, input)
    })
}
