//! `zstn pack`

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use zstn::pack::pack_map;
use zstn::source::{Place, Source};
use zstn::{DeltaReport, Engine, PackOptions, Progress, Result, Shards, pack_delta};

use super::{place, print, progress, say, shards, size};

#[derive(Args)]
pub struct Options {
    /// Safetensors file, or .safetensors.index.json of a sharded checkpoint: a
    /// path, an http(s) address, or - for standard input; or a local folder
    #[arg(value_parser = place::parser())]
    pub input: Place,
    /// Packed file [default: the input's name with .zstn]; of a folder or an
    /// index a new folder [default: its name with -zstn behind]
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Time against size
    #[arg(long, value_enum, default_value_t)]
    pub effort: Effort,
    #[command(flatten)]
    pub bases: place::Bases,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
    /// Memory to stay within, like 512M
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = size::parse)]
    pub memory: u64,
    /// Leave out the checksums and digests that show damage
    #[arg(long)]
    pub no_integrity: bool,
    /// Pack a file that ends before its tensors do as one frame, instead of
    /// refusing it
    #[arg(long)]
    pub allow_truncated: bool,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Effort as it is spelled on the command line.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Effort {
    Fast,
    #[default]
    Balanced,
    Max,
}

impl From<Effort> for zstn::Effort {
    fn from(effort: Effort) -> Self {
        match effort {
            Effort::Fast => Self::Fast,
            Effort::Balanced => Self::Balanced,
            Effort::Max => Self::Max,
        }
    }
}

impl Options {
    /// What the library is told.
    pub fn packing<'a>(&self, progress: &'a dyn Progress) -> PackOptions<'a> {
        PackOptions {
            effort: self.effort.into(),
            memory_bytes: self.memory,
            integrity: !self.no_integrity,
            allow_truncated: self.allow_truncated,
            progress,
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    let silent = options.quiet || options.json;
    if let Some(input) = Shards::open_tree(&options.input, &["safetensors"])? {
        return shards::pack(options, &input);
    }
    let extension = match options.bases.is_some() {
        true => "z4dm",
        false => "zstn",
    };
    let target = place::output(&options.input, options.output.as_deref(), |input| {
        input.with_extension(extension)
    });
    let output = options.overwrite.begin(&target)?;
    let engine = Engine::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let started = Instant::now();
    if options.bases.is_some() {
        let base = options.bases.open(&engine, options.memory, silent)?;
        let bar = progress::watch("packing", silent);
        let report = pack_delta(&engine, &input, &base, output, &options.packing(&bar));
        drop(bar);
        let report = report?;
        return say_delta(options, &target, &report, started.elapsed().as_secs_f64());
    }
    let bar = progress::watch("packing", silent);
    let report = pack_map(&engine, &input, output, &options.packing(&bar));
    drop(bar);
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        return print(serde_json::json!({
            "input": options.input.to_string(),
            "output": target.display().to_string(),
            "original_bytes": report.original_bytes,
            "packed_bytes": report.packed_bytes,
            "tensors": report.tensors,
            "tied": report.tied,
            "indexed": report.indexed,
            "seconds": seconds,
        }));
    }
    if options.quiet {
        return Ok(());
    }
    say!(
        "{} → {}: {} → {} ({}), {:.2} s, {}",
        input.name(),
        target.display(),
        size::bytes(report.original_bytes),
        size::bytes(report.packed_bytes),
        size::ratio(report.original_bytes, report.packed_bytes),
        seconds,
        size::rate(report.original_bytes, seconds),
    );
    if !report.indexed {
        say!(
            "note: the file breaks the safetensors rules, so it was packed as a whole; unpack \
             restores it exactly, single tensors cannot be read"
        );
    }
    Ok(())
}

/// How many tensors of a delta are stored in which way, all of them.
pub fn shares(report: &DeltaReport) -> String {
    format!(
        "{} as in the base, {} as differences, {} new or stored whole",
        report.copied, report.differing, report.whole
    )
}

fn say_delta(options: &Options, target: &Path, report: &DeltaReport, seconds: f64) -> Result<()> {
    if options.json {
        return print(serde_json::json!({
            "input": options.input.to_string(),
            "base": options.bases.name(),
            "output": target.display().to_string(),
            "original_bytes": report.original_bytes,
            "packed_bytes": report.packed_bytes,
            "tensors": report.tensors,
            "copied": report.copied,
            "differing": report.differing,
            "whole": report.whole,
            "seconds": seconds,
        }));
    }
    if !options.quiet {
        say!(
            "{} → {}: {} → {} ({}), {}: {}, {:.2} s",
            options.input,
            target.display(),
            size::bytes(report.original_bytes),
            size::bytes(report.packed_bytes),
            size::ratio(report.original_bytes, report.packed_bytes),
            match report.tensors {
                1 => "1 tensor".into(),
                count => format!("{count} tensors"),
            },
            shares(report),
            seconds,
        );
    }
    Ok(())
}
