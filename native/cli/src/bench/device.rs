//! `zstn bench --device cuda`: loads a file into a GPU, as it is and packed, and checks
//! that the GPU has the same bytes. Both files are in memory, so reading a disk is not
//! measured. The first round is a warm-up, which allocates the buffers.

use std::path::Path;
use std::time::Instant;

use zstn::{Error, Input, Reader, Result};
use zstn_core::container::zstn::{ContainerOptions, pack_into};
use zstn_gpu::cuda::Gpu;
use zstn_gpu::load::{LoadOptions, load};

use super::super::pack::count;
use super::{Options, median, original, print, size, table};

/// Parses the name of a device. Returns the number of the GPU.
pub fn parse(name: &str) -> Result<u16, String> {
    let number = match name.split_once(':') {
        None if name == "cuda" => Some(0),
        Some(("cuda", number)) => number.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| "give cuda, or cuda:1 for the second GPU".into())
}

/// Converts an error of a GPU.
pub fn of_file(error: zstn_gpu::Error) -> Error {
    match error {
        zstn_gpu::Error::File(error) => error,
        error => Error::Usage(error.to_string()),
    }
}

pub fn run(options: &Options, file: &Path, number: u16) -> Result<()> {
    let gpu = Gpu::open(number).map_err(of_file)?;
    let name = file.display().to_string();
    let engine = options.threads.engine()?;
    let (original, mut packed) = (original(file)?, Vec::new());
    let container = ContainerOptions::new(options.effort.into())
        .integrity(!options.no_integrity)
        .statistics(!options.no_statistics);
    let packing = pack_into(&engine, &original, container, &mut packed);
    packing.map_err(|source| Error::Format {
        place: name.clone(),
        source,
    })?;
    let (original_bytes, packed_bytes) = (original.len() as u64, packed.len() as u64);
    let mut seconds = Vec::new();
    let mut by_cpu = 0;
    for bytes in [original, packed] {
        let reader = Reader::options().engine(&engine);
        let reader = reader.open(Input::bytes(&name, bytes))?;
        let mut times = Vec::new();
        for round in 0..=options.runs {
            let started = Instant::now();
            let loaded = load(&gpu, &reader, &LoadOptions::default()).map_err(of_file)?;
            match round {
                0 => {
                    by_cpu = loaded.report.by_cpu;
                    for tensor in &loaded.tensors {
                        let found = loaded.memory.read(tensor.range.clone());
                        if found.map_err(of_file)? != reader.read(&tensor.name)?.bytes {
                            let detail = format!(
                                "{} of {name} has other bytes in the GPU; this is a bug in zstn",
                                tensor.name
                            );
                            return Err(Error::Differs { detail });
                        }
                    }
                }
                _ => times.push(started.elapsed().as_secs_f64()),
            }
        }
        seconds.push(median(times));
    }
    let [plain_seconds, packed_seconds] = seconds[..] else {
        return Ok(());
    };
    if options.json {
        return print(serde_json::json!({
            "input": name,
            "device": gpu.name(),
            "threads": engine.threads(),
            "runs": options.runs,
            "original_bytes": original_bytes,
            "packed_bytes": packed_bytes,
            "load_plain_seconds": plain_seconds,
            "load_packed_seconds": packed_seconds,
            "cpu_tensors": by_cpu,
        }));
    }
    let packed = format!(
        "{} ({})",
        size::bytes(packed_bytes),
        size::ratio(original_bytes, packed_bytes)
    );
    table::print_facts(&[
        ("file", name),
        ("device", gpu.name().into()),
        ("original", size::bytes(original_bytes)),
        ("packed", packed),
        ("load plain", size::rate(original_bytes, plain_seconds)),
        ("load packed", size::rate(original_bytes, packed_seconds)),
        ("by the CPU", count(by_cpu, "tensor")),
        ("measured", format!("median of {}", options.runs)),
    ])
}
