//! `zstn verify`: decodes everything and checks it.

use clap::Args;
use serde_json::json;
use zstn::{Job, Location, Result, VerifiedFile, VerifyOptions, VerifyReport};
use zstn_core::catalog::FileKind;

use super::arguments::{self, Memory, Report, Stored, Threads};
use super::base_options::Bases;
use super::network::{FullDownload, Network};
use super::pack::{count, list};
use super::progress::Direction;
use super::{Outcome, each, print, progress, say, size};

#[derive(Args)]
pub struct Options {
    /// Files of any format, .index.json of sharded checkpoints, or local folders: paths,
    /// addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    /// Compare every byte with this original; for folders, compare every file
    #[arg(long, value_name = "ORIGINAL", value_parser = arguments::location())]
    against: Option<Location>,
    /// Record in the file that its SHA-256, which `pack --sha256` was given, has been
    /// compared; the file is replaced by a copy
    #[arg(long)]
    confirm: bool,
    /// Leave out the SHA-256 of the whole file, which one thread computes; all tensors are
    /// still compared with their own digests
    #[arg(long, conflicts_with = "confirm")]
    fast: bool,
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
    fn verifying(&self) -> VerifyOptions {
        let options = VerifyOptions::default().view(self.stored.view());
        let mut options = options.confirm(self.confirm).fast(self.fast);
        if let Some(original) = &self.against {
            options = options.original(original);
        }
        self.bases.add_to(options, |o, base| o.base(base))
    }

    fn one(&self, job: &Job, input: &Location) -> Result<()> {
        let bar = progress::watch("verifying", Direction::Reading, self.report);
        let report = zstn::verify(&job.clone().progress(&bar), input, &self.verifying());
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
                    "has_file_digest": file.has_file_digest,
                    "max_error": file.max_error,
                    "is_confirmed": file.is_confirmed,
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
                "identical": report.identical,
                "max_error": report.max_error(),
                "indexed_tensors": report.indexed_tensors,
                "missing_tensors": report.missing_tensors,
                "unchecked_files": report.unchecked_files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                "ok": true,
                "files": files.collect::<Vec<_>>(),
            }));
        }
        if !self.report.quiet {
            self.say(input, &report);
        }
        say_unchecked(input, &report);
        Ok(())
    }

    fn say(&self, input: &Location, report: &VerifyReport) {
        let is = |kind| report.files.iter().all(|file| file.kind == kind);
        say!(
            "{input}: {}{} to {}, {}{}{}",
            match report.files.len() {
                1 => String::new(),
                files => format!("{}, ", count(files, "file")),
            },
            decoded(
                report.frames(),
                match () {
                    () if is(FileKind::Delta) => "record",
                    () if is(FileKind::Zstn) => "frame",
                    () => "tensor",
                }
            ),
            size::bytes(report.original_bytes()),
            match report.indexed_tensors {
                0 => String::new(),
                1 => "1 tensor is where the index says, ".into(),
                count => format!("{count} tensors are where the index says, "),
            },
            self.outcome(report),
            match report.files.iter().any(|file| file.is_confirmed) {
                true => "; the file records that its SHA-256 has been compared",
                false => "",
            },
        );
    }

    /// Describes the result of the comparison.
    fn outcome(&self, report: &VerifyReport) -> String {
        let is_packed = report.files.iter().all(is_packed);
        let file = match report.files.len() {
            1 => "the file has",
            _ => "the files have",
        };
        let has_left_out = |file: &VerifiedFile| file.has_digests && !file.has_file_digest;
        let checksums = match self.fast && report.files.iter().any(has_left_out) {
            true => "all other checksums match (SHA-256 of the whole file not compared)",
            false => "all checksums match",
        };
        match (&self.against, report.max_error()) {
            (Some(original), _) if report.identical => format!("identical to {original}"),
            (Some(original), Some(error)) => {
                format!("within {error:.3e} of {original}, as promised")
            }
            (Some(original), None) if is_packed => {
                format!("the weights are identical to those of {original}")
            }
            (Some(original), None) => format!(
                "the tensors are identical to those of {original}; other parts of the files, such \
                 as metadata, were not compared"
            ),
            (None, _) if report.has_digests() => checksums.into(),
            (None, _) if report.files.iter().any(|file| file.has_digests) => {
                format!("{checksums}, but some files have none")
            }
            (None, _) if is_packed => {
                format!("but nothing shows whether the values are right: {file} no checksums")
            }
            (None, _) => format!("but {file} no checksums of zstn"),
        }
    }
}

fn is_packed(file: &VerifiedFile) -> bool {
    matches!(file.kind, FileKind::Zstn | FileKind::Delta)
}

/// Returns a count with its verb: `1 frame decodes`, `2 frames decode`.
fn decoded(frames: usize, noun: &str) -> String {
    match frames {
        1 => format!("1 {noun} decodes"),
        frames => format!("{frames} {noun}s decode"),
    }
}

/// Prints the files that were not checked, even with `--quiet`, because the outcome
/// would otherwise seem to cover all files.
fn say_unchecked(input: &Location, report: &VerifyReport) {
    let unchecked = report.unchecked_files.iter();
    let unchecked: Vec<String> = unchecked.map(|path| path.display().to_string()).collect();
    if !unchecked.is_empty() {
        say!(
            "note: {input}: not checked, since {}: {}",
            match report.compared {
                _ if !report.files.iter().any(is_packed) => "they do not belong to the model",
                true => "only weights and indices were compared",
                false => "copied files have no checksums (--against FOLDER compares them)",
            },
            list(&unchecked)
        );
    }
    if !report.missing_tensors.is_empty() {
        say!(
            "warning: {input}: the index lists these tensors, but no file has them: {}",
            list(&report.missing_tensors)
        );
    }
}

pub fn run(options: &Options) -> Outcome {
    let http = options.network.options(&options.inputs)?;
    let http = options.full_download.add_to(options.report.watch(http));
    let job = Job::new().engine(&options.threads.engine()?).http(http);
    let job = options.memory.add_to(job, Job::memory_bytes);
    each(options.inputs.iter(), options.report.json, |input| {
        options.one(&job, input)
    })
}
