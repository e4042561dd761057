//! `zstn pack`, `unpack` and `verify` for a checkpoint in several files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use zstn::shards::PACKED;
use zstn::source::Place;
use zstn::{
    Engine, Error, Packed, Result, Shards, ShardsReport, pack_shards, unpack_shards, verify_shards,
};

use super::{print, progress, say, size};

/// What stands behind the name of a folder that was packed.
const PACKED_SUFFIXES: [&str; 2] = ["-zstn", "-z4dm"];

/// The packed checkpoint in several files that `input` is, if it is one.
pub fn packed(input: &Place) -> Result<Option<Shards>> {
    let kinds = [&PACKED[..], &zstn::shards::READABLE].concat();
    let shards = Shards::open_tree(input, &kinds)?;
    Ok(shards.filter(Shards::is_packed))
}

pub fn pack(options: &super::pack::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let bases = options.bases.shards()?;
    let suffix = match &bases[..] {
        [] => PACKED_SUFFIXES[0],
        _ => PACKED_SUFFIXES[1],
    };
    let target = target(input, options.output.as_deref(), |name| {
        appended(name, suffix)
    })?;
    let engine = Engine::new(options.threads)?;
    let started = Instant::now();
    let bar = progress::watch("packing", silent);
    let report = pack_shards(&engine, input, &bases, &target, &options.packing(&bar));
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
                    object["whole"] = report.whole.into();
                }
            }
            object
        });
        let tensors = report.shards.iter().map(|shard| shard.report.tensors());
        return print(json!({
            "input": options.input.to_string(),
            "base": options.bases.name(),
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
        say_others(&report, true);
        return Ok(());
    }
    for shard in &report.shards {
        let (original, packed) = (shard.report.original_bytes(), shard.report.packed_bytes());
        let shares = match &shard.report {
            Packed::Container(_) => String::new(),
            Packed::Delta(report) => format!(", tensors: {}", super::pack::shares(report)),
        };
        say!(
            "  {} → {}: {} → {} ({}){shares}",
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
    say_others(&report, false);
    Ok(())
}

pub fn unpack(options: &super::unpack::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let bases = options.bases.shards()?;
    let target = target(input, options.output.as_deref(), |name| {
        let text = name.to_str().unwrap_or_default();
        let stems = PACKED_SUFFIXES.iter().map(|end| text.strip_suffix(end));
        match stems.flatten().find(|stem| !stem.is_empty()) {
            Some(stem) => stem.into(),
            None => appended(name, "-safetensors"),
        }
    })?;
    let engine = Engine::new(options.threads)?;
    let started = Instant::now();
    let bar = progress::watch("unpacking", silent);
    let report = unpack_shards(&engine, input, &bases, &target, &bar);
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
            "input": options.input.to_string(),
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
    }
    say_others(&report, options.quiet);
    Ok(())
}

pub fn verify(options: &super::verify::Options, input: &Shards) -> Result<()> {
    let silent = options.quiet || options.json;
    let plain = |place: &Place| open(place, &["safetensors"]);
    let original = options.against.as_ref().map(plain).transpose()?;
    let bases = options.bases.shards()?;
    let engine = Engine::new(options.threads)?;
    let bar = progress::watch("verifying", silent);
    let report = verify_shards(&engine, input, &bases, original.as_ref(), &bar);
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
            "file": options.input.to_string(),
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
        match &bases[..] {
            [] => "frames",
            _ => "records",
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

/// An original: shards, or one file.
fn open(place: &Place, kinds: &[&str]) -> Result<Shards> {
    Ok(match Shards::open_tree(place, kinds)? {
        Some(shards) => shards,
        None => Shards::of_file(place.clone()),
    })
}

/// The folder to make: as the person says, else beside the input, or here if
/// that has an address, under a `name` made of the input's.
fn target(
    input: &Shards,
    output: Option<&Path>,
    name: impl Fn(&OsStr) -> OsString,
) -> Result<PathBuf> {
    if let Some(output) = output {
        return Ok(output.into());
    }
    // Of an index, without `.safetensors.index.json`.
    let stem = |file: &OsStr| match file.to_str() {
        None => name(file),
        Some(file) => {
            let stem = file.strip_suffix(".index.json").unwrap_or(file);
            name(
                stem.rsplit_once('.')
                    .map_or(stem, |(stem, _)| stem)
                    .as_ref(),
            )
        }
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
            Ok(folder.with_file_name(name(folder.file_name().unwrap_or_default())))
        }
        Place::Path(index) => Ok(index.with_file_name(stem(index.file_name().unwrap_or_default()))),
        place => {
            let file = place.file_name().unwrap_or_else(|| "model".into());
            Ok(stem(file.as_ref()).into())
        }
    }
}

fn appended(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

fn files(count: usize) -> String {
    match count {
        1 => "1 file".into(),
        count => format!("{count} files"),
    }
}

/// What came along, and always, what did not: without it the result looks
/// complete.
fn say_others<T>(report: &ShardsReport<T>, quiet: bool) {
    if !report.copied.is_empty() && !quiet {
        say!("copied: {}", report.copied.join(", "));
    }
    if !report.left_out.is_empty() {
        say!(
            "warning: left out: {} (.git, links to folders, and what is neither a file nor a folder)",
            report.left_out.join(", ")
        );
    }
}
