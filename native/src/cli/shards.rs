//! `zstn pack`, `unpack` and `verify` for a checkpoint in several files.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use zstn::shards::PACKED;
use zstn::source::Place;
use zstn::{
    Error, Native, Packed, Result, Shards, ShardsReport, pack_shards, unpack_shards, verify_shards,
};

use super::{print, progress, say, size};

/// What stands behind the name of a folder that was packed.
const PACKED_SUFFIXES: [&str; 2] = ["-zstn", "-z4dm"];

/// The packed checkpoint in several files that `input` is, if it is one.
pub fn packed(input: &str) -> Result<Option<Shards>> {
    let kinds = [&PACKED[..], &zstn::shards::READABLE].concat();
    let shards = Shards::open(&Place::from(input), &kinds)?;
    Ok(shards.filter(Shards::is_packed))
}

pub fn pack(options: &super::pack::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let (base, suffix) = match &options.base {
        None => (None, PACKED_SUFFIXES[0]),
        Some(base) => (Some(open(base, &["safetensors"])?), PACKED_SUFFIXES[1]),
    };
    let target = target(input, options.output.as_deref(), |name| {
        format!("{name}{suffix}")
    })?;
    let engine = Native::new(options.threads)?;
    let started = Instant::now();
    let bar = progress::watch("packing", silent);
    let report = pack_shards(
        &engine,
        input,
        base.as_ref(),
        &target,
        &options.packing(&bar),
    );
    drop(bar);
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    let (original, packed) = (report.original_bytes(), report.packed_bytes());
    if options.json {
        let shards = report.shards.iter().map(|shard| {
            let mut object = json!({
                "input": shard.input,
                "output": shard.output,
                "original_bytes": shard.report.original_bytes(),
                "packed_bytes": shard.report.packed_bytes(),
                "tensors": shard.report.tensors(),
            });
            match &shard.report {
                Packed::Container(report) => {
                    object["tied"] = report.tied.into();
                    object["indexed"] = report.indexed.into();
                }
                Packed::Delta(report) => {
                    object["copied"] = report.copied.into();
                    object["differing"] = report.differing.into();
                }
            }
            object
        });
        let tensors = report.shards.iter().map(|shard| shard.report.tensors());
        return print(json!({
            "input": options.input,
            "base": options.base,
            "output": target.display().to_string(),
            "original_bytes": original,
            "packed_bytes": packed,
            "tensors": tensors.sum::<usize>(),
            "seconds": seconds,
            "index": report.index,
            "shards": shards.collect::<Vec<Value>>(),
            "copied": report.copied,
            "left_out": report.left_out,
        }));
    }
    if options.quiet {
        return Ok(());
    }
    for shard in &report.shards {
        let (original, packed) = (shard.report.original_bytes(), shard.report.packed_bytes());
        say!(
            "  {} → {}: {} → {} ({})",
            shard.input,
            shard.output,
            size::bytes(original),
            size::bytes(packed),
            size::ratio(original, packed),
        );
    }
    say!(
        "{} → {}: {}, {} → {} ({}), {seconds:.2} s, {}",
        options.input,
        target.display(),
        files(report.shards.len()),
        size::bytes(original),
        size::bytes(packed),
        size::ratio(original, packed),
        size::rate(original, seconds),
    );
    for shard in &report.shards {
        if matches!(shard.report, Packed::Container(report) if !report.indexed) {
            say!(
                "note: {} breaks the safetensors rules, so it was packed as a whole; unpack \
                 restores it exactly, single tensors cannot be read",
                shard.input
            );
        }
    }
    say_others(&report);
    Ok(())
}

pub fn unpack(options: &super::unpack::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let base = match &options.base {
        None => None,
        Some(base) => Some(open(base, &["safetensors"])?),
    };
    let target = target(input, options.output.as_deref(), |name| {
        let stems = PACKED_SUFFIXES.iter().map(|end| name.strip_suffix(end));
        match stems.flatten().find(|stem| !stem.is_empty()) {
            Some(stem) => stem.into(),
            None => format!("{name}-safetensors"),
        }
    })?;
    let engine = Native::new(options.threads)?;
    let started = Instant::now();
    let bar = progress::watch("unpacking", silent);
    let report = unpack_shards(&engine, input, base.as_ref(), &target, &bar);
    drop(bar);
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        let shards = report.shards.iter().map(|shard| {
            json!({
                "input": shard.input,
                "output": shard.output,
                "packed_bytes": shard.report.packed_bytes,
                "original_bytes": shard.report.original_bytes,
            })
        });
        return print(json!({
            "input": options.input,
            "output": target.display().to_string(),
            "packed_bytes": report.packed_bytes(),
            "original_bytes": report.original_bytes(),
            "seconds": seconds,
            "index": report.index,
            "shards": shards.collect::<Vec<Value>>(),
            "copied": report.copied,
            "left_out": report.left_out,
        }));
    }
    if !options.quiet {
        say!(
            "{} → {}: {}, {} → {}, {seconds:.2} s, {}",
            options.input,
            target.display(),
            files(report.shards.len()),
            size::bytes(report.packed_bytes()),
            size::bytes(report.original_bytes()),
            size::rate(report.original_bytes(), seconds),
        );
        say_others(&report);
    }
    Ok(())
}

pub fn verify(options: &super::verify::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let plain = |place: &String| open(place, &["safetensors"]);
    let original = options.against.as_ref().map(plain).transpose()?;
    let base = options.base.as_ref().map(plain).transpose()?;
    let engine = Native::new(options.threads)?;
    let bar = progress::watch("verifying", silent);
    let report = verify_shards(&engine, input, base.as_ref(), original.as_ref(), &bar);
    drop(bar);
    let report = report?;
    if options.json {
        let shards = report.shards.iter().map(|(name, shard)| {
            json!({
                "file": name,
                "frames": shard.frames,
                "packed_bytes": shard.packed_bytes,
                "original_bytes": shard.original_bytes,
            })
        });
        return print(json!({
            "file": options.input,
            "frames": report.frames(),
            "packed_bytes": report.packed_bytes(),
            "original_bytes": report.original_bytes(),
            "indexed_tensors": report.indexed_tensors,
            "shards": shards.collect::<Vec<Value>>(),
            "compared": original.is_some(),
            "ok": true,
        }));
    }
    if options.quiet {
        return Ok(());
    }
    say!(
        "{}: {}, {} {} decode to {}, {}{}",
        options.input,
        files(report.shards.len()),
        report.frames(),
        match base {
            Some(_) => "records",
            None => "frames",
        },
        size::bytes(report.original_bytes()),
        match report.indexed_tensors {
            0 => String::new(),
            count => format!("{count} tensors are where the index says, "),
        },
        match &options.against {
            Some(original) => format!("identical to {original}"),
            None => "as the files say".into(),
        }
    );
    Ok(())
}

/// A base or an original: shards, or one file.
fn open(place: &str, kinds: &[&str]) -> Result<Shards> {
    let place = Place::from(place);
    Ok(match Shards::open(&place, kinds)? {
        Some(shards) => shards,
        None => Shards::of_file(place),
    })
}

/// The folder to make: as the person says, else beside the input, or here if
/// that has an address, under a `name` made of the input's.
fn target(input: &Shards, output: Option<&Path>, name: impl Fn(&str) -> String) -> Result<PathBuf> {
    if let Some(output) = output {
        return Ok(output.into());
    }
    let stem = |file: &str| {
        let stem = file.strip_suffix(".index.json").unwrap_or(file);
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        name(stem)
    };
    match input.place() {
        Place::Path(folder) if input.is_folder() => {
            let folder = match folder.file_name() {
                Some(_) => folder.clone(),
                // `.` and the like have a name only in full.
                None => folder
                    .canonicalize()
                    .map_err(|error| Error::io(format!("open {}", folder.display()), error))?,
            };
            let own = folder.file_name().unwrap_or_default().to_string_lossy();
            Ok(folder.with_file_name(name(&own)))
        }
        Place::Path(index) => {
            let own = index.file_name().unwrap_or_default().to_string_lossy();
            Ok(index.with_file_name(stem(&own)))
        }
        place => Ok(stem(&place.file_name().unwrap_or_else(|| "model".into())).into()),
    }
}

fn files(count: usize) -> String {
    match count {
        1 => "1 file".into(),
        count => format!("{count} files"),
    }
}

fn say_others<T>(report: &ShardsReport<T>) {
    if !report.copied.is_empty() {
        say!("copied: {}", report.copied.join(", "));
    }
    if !report.left_out.is_empty() {
        say!(
            "note: left out, since only files at the top that are not hidden come along: {}",
            report.left_out.join(", ")
        );
    }
}
