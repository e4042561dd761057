//! `zstn bench`: measures packing and unpacking in memory, and checks that the restored
//! bytes are identical. Reading the file is not measured. The first round is a warm-up
//! that starts the threads, loads the program's pages and allocates the buffers of both
//! results. Later rounds reuse the buffers unless `--fresh-buffers` is given.
//!
//! `zstn bench --files` measures files on a disk instead (`files.rs`), and `--device cuda`
//! loading into a GPU (`device.rs`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};
use zstn_core::catalog::{FileKind, recognise};
use zstn_core::container::zstn::{ContainerOptions, pack_into, unpack_into};

use super::arguments::Threads;
use super::pack::Effort;
use super::terminal::Stdout;
use super::{print, size, table};

mod device;
mod files;
mod synthetic;
mod usage;

pub use device::of_file;

#[derive(Args)]
pub struct Options {
    /// Safetensors file; with --files also a folder, or nothing for a synthetic BF16
    /// checkpoint
    #[arg(required_unless_present = "files")]
    file: Option<PathBuf>,
    /// Pack, unpack and verify files on a disk, and show where the time goes: work that
    /// cannot be divided among cores, workers that wait, and bytes read and written
    /// (docs/benchmarks.md). Starts four threads per core unless --threads is given.
    /// Needs Linux
    #[arg(long, conflicts_with = "fresh_buffers")]
    files: bool,
    /// Length of the synthetic checkpoint
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = size::parse, requires = "files", conflicts_with = "file")]
    size: u64,
    /// Folder for the files, such as one on the disk to be measured; by default that of
    /// temporary files. It needs space for twice the checkpoint, or three times the
    /// synthetic one
    #[arg(long, value_name = "DIR", requires = "files")]
    work: Option<PathBuf>,
    /// Load the file into an NVIDIA GPU instead, plain and packed: cuda, or cuda:N for
    /// the GPU with this number (docs/gpu.md)
    #[arg(long, value_parser = device::parse, conflicts_with_all = ["files", "fresh_buffers"])]
    device: Option<u16>,
    /// Speed/size trade-off
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    threads: Threads,
    /// Timed runs after one warm-up; the medians are printed, with --files the fastest
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Omit the checksums and digests that detect damage
    #[arg(long)]
    no_integrity: bool,
    /// Omit the statistics of the tensors
    #[arg(long)]
    no_statistics: bool,
    /// Allocate new result buffers in every run, as most other programs do, instead of
    /// reusing them
    #[arg(long)]
    fresh_buffers: bool,
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    match (&options.file, options.device) {
        (Some(file), Some(number)) => device::run(options, file, number),
        (Some(file), None) if !options.files => in_memory(options, file),
        (file, _) => files::run(options, file.as_deref()),
    }
}

fn in_memory(options: &Options, file: &Path) -> Result<()> {
    let engine = options.threads.engine()?;
    let name = file.display().to_string();
    let original = original(file)?;
    let in_file = |source| Error::Format {
        place: name.clone(),
        source,
    };
    let (mut pack_times, mut unpack_times) = (Vec::new(), Vec::new());
    let (mut packed, mut restored) = (Vec::new(), Vec::new());
    for round in 0..=options.runs {
        if options.fresh_buffers {
            // The buffers are freed before the clock starts, because the times of other
            // programs do not include freeing their results either.
            (packed, restored) = (Vec::new(), Vec::new());
        }
        let started = Instant::now();
        let container = ContainerOptions::new(options.effort.into())
            .integrity(!options.no_integrity)
            .statistics(!options.no_statistics);
        let packing = pack_into(&engine, &original, container, &mut packed);
        packing.map_err(in_file)?;
        let pack_time = started.elapsed().as_secs_f64();
        let started = Instant::now();
        unpack_into(&engine, &packed, &mut restored)?;
        let unpack_time = started.elapsed().as_secs_f64();
        if restored != original {
            return Err(Error::Differs {
                detail: format!("{name} does not survive the round trip; this is a bug in zstn"),
            });
        }
        if round > 0 {
            pack_times.push(pack_time);
            unpack_times.push(unpack_time);
        }
    }
    let (pack_seconds, unpack_seconds) = (median(pack_times), median(unpack_times));
    let (original_bytes, packed_bytes) = (original.len() as u64, packed.len() as u64);
    if options.json {
        return print(serde_json::json!({
            "input": name,
            "threads": engine.threads(),
            "runs": options.runs,
            "original_bytes": original_bytes,
            "packed_bytes": packed_bytes,
            "pack_seconds": pack_seconds,
            "unpack_seconds": unpack_seconds,
        }));
    }
    table::print_facts(&[
        ("file", name),
        ("original", size::bytes(original_bytes)),
        (
            "packed",
            format!(
                "{} ({})",
                size::bytes(packed_bytes),
                size::ratio(original_bytes, packed_bytes)
            ),
        ),
        ("pack", size::rate(original_bytes, pack_seconds)),
        ("unpack", size::rate(original_bytes, unpack_seconds)),
        (
            "measured",
            format!("median of {}, {} threads", options.runs, engine.threads()),
        ),
    ])
}

/// Reads a safetensors file.
fn original(file: &Path) -> Result<Vec<u8>> {
    let name = file.display().to_string();
    let bytes = Location::from(file).fetch(&HttpOptions::default(), &|_, _| ())?;
    let bytes = bytes.read_all()?.into_owned();
    let kind = recognise(&bytes, bytes.len() as u64).map_err(|source| Error::Format {
        place: name.clone(),
        source,
    })?;
    match kind {
        FileKind::Safetensors => Ok(bytes),
        kind => Err(Error::Usage(format!(
            "{name} is a {} file; bench packs a safetensors file, which `zstn unpack` restores",
            kind.name()
        ))),
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    match seconds.len() % 2 {
        1 => seconds[middle],
        _ => f64::midpoint(seconds[middle - 1], seconds[middle]),
    }
}
