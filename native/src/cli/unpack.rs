//! `zstn unpack`

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use zstn::shards::PACKED;
use zstn::source::{Place, Source};
use zstn::{Engine, Result, Shards, unpack_delta, unpack_map};

use super::{place, print, progress, say, shards, size};

#[derive(Args)]
pub struct Options {
    /// Packed file, or the .index.json of packed shards: a path, an http(s)
    /// address, or - for standard input; or a local folder
    #[arg(value_parser = place::parser())]
    pub input: Place,
    /// Restored file [default: the input's name with .safetensors]; of a folder
    /// or an index a new folder [default: its name without -zstn]
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub bases: place::Bases,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let silent = options.quiet || options.json;
    if let Some(input) = Shards::open_tree(&options.input, &PACKED)? {
        return shards::unpack(options, &input);
    }
    let target = place::output(&options.input, options.output.as_deref(), |input| {
        input.with_extension("safetensors")
    });
    let output = options.overwrite.begin(&target)?;
    let engine = Engine::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let started = Instant::now();
    let report = match options.bases.open_for(&input, &engine, silent)? {
        Some(base) => {
            let bar = progress::watch("unpacking", silent);
            unpack_delta(&engine, &input, &base, output, &bar)?
        }
        None => {
            let bar = progress::watch("unpacking", silent);
            unpack_map(&engine, &input, output, &bar)?
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        return print(serde_json::json!({
            "input": options.input.to_string(),
            "output": target.display().to_string(),
            "packed_bytes": report.packed_bytes,
            "original_bytes": report.original_bytes,
            "seconds": seconds,
        }));
    }
    if !options.quiet {
        say!(
            "{} → {}: {} → {}, {:.2} s, {}",
            input.name(),
            target.display(),
            size::bytes(report.packed_bytes),
            size::bytes(report.original_bytes),
            seconds,
            size::rate(report.original_bytes, seconds),
        );
    }
    Ok(())
}
