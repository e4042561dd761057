//! `zstn pack`: packs a file of any format or a checkpoint in several files.

use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use zstn::family::BaseChoice;
use zstn::{
    Error, FolderReport, Job, Location, PackOptions, PackReport, PackedFile, Result, Storage,
    Uploaded,
};
use zstn_core::catalog::{FileKind, kind_of_name};
use zstn_core::container::zstn::parse_sha256;
#[cfg(feature = "worker")]
use zstn_core::frame::select::EncodeOptions;

use super::arguments::{self, Destination, Memory, Overwrite, Report, Threads};
use super::base_options::{Bases, Family, chosen_names};
use super::network::Network;
use super::outputs::{Naming, Outputs};
use super::progress::Direction;
use super::{Outcome, each, print, progress, say, size};

#[derive(Args)]
#[command(mut_arg("base", Bases::or_auto))]
pub struct Options {
    /// Files of any format, .safetensors.index.json of sharded checkpoints, or local
    /// folders of model files: paths, addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    outputs: Outputs,
    /// Speed/size trade-off
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    extended: Extended,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    family: Family,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
    /// Omit the checksums and digests that detect damage
    #[arg(long)]
    no_integrity: bool,
    /// Omit the statistics of the tensors, which viewers show without reading weights
    #[arg(long)]
    no_statistics: bool,
    /// SHA-256 of INPUT, a single file, as in its Git LFS oid; it is stored without
    /// being checked. Unpacking and verifying check it and fail if it is wrong
    #[arg(
        long,
        value_name = "HEX",
        value_parser = parse_sha256,
        conflicts_with_all = ["base", "no_integrity"]
    )]
    sha256: Option<[u8; 32]>,
    /// Pack a truncated file, which ends before its tensors do, as a single frame
    /// instead of refusing it
    #[arg(long)]
    allow_truncated: bool,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

/// The effort, as spelled on the command line.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Effort {
    /// A third faster than balanced, about 1 % larger
    Fast,
    #[default]
    Balanced,
    /// 10 to 30 times the processor time of balanced, 0.2 to 2 % smaller; 120 to 220
    /// times for 4-bit values, up to 16 % smaller with a scale per row
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

/// Selects whether extension frames are written.
#[derive(Args, Clone, Copy, Default)]
pub struct Extended {
    /// Write extension frames where they are smaller; zstn reads them without an
    /// option, but z4ai refuses a file that has one
    #[arg(long)]
    extended: bool,
}

impl Extended {
    pub fn is_set(self) -> bool {
        self.extended
    }

    #[cfg(feature = "worker")]
    pub fn encode(self, effort: Effort) -> EncodeOptions {
        EncodeOptions::new(effort.into()).extended(self.extended)
    }
}

impl Options {
    fn packing(&self) -> PackOptions {
        let options = PackOptions::default()
            .effort(self.effort.into())
            .extended(self.extended.is_set())
            .integrity(!self.no_integrity)
            .statistics(!self.no_statistics)
            .allow_truncated(self.allow_truncated);
        let options = match self.sha256 {
            Some(sha256) => options.sha256(sha256),
            None => options,
        };
        match self.bases.is_auto() {
            true => options,
            false => self.bases.add_to(options, |o, base| o.base(base)),
        }
    }

    fn one(
        &self,
        job: &Job,
        input: &Location,
        destination: &Destination,
        choice: Option<&BaseChoice>,
    ) -> Result<()> {
        let sink = self.overwrite.sink(destination)?;
        let started = Instant::now();
        let bar = progress::watch("packing", Direction::Packing, self.report);
        let packing = match choice {
            Some(choice) => choice.add_to(self.packing()),
            None => self.packing(),
        };
        let job = job.clone().progress(&bar);
        let report = zstn::pack(&job, input, sink, &packing);
        drop(bar);
        let report = report?;
        let seconds = started.elapsed().as_secs_f64();
        if self.report.json {
            return print(json!({
                "input": input.to_string(),
                "bases": choice.map_or_else(|| self.bases.names(), chosen_names),
                "family": choice.map(|choice| self.family.json(choice)),
                "output": destination.to_string(),
                "original_bytes": report.original_bytes(),
                "packed_bytes": report.packed_bytes(),
                "tensors": report.tensors(),
                "seconds": seconds,
                "files": report.files.iter().map(file_json).collect::<Vec<_>>(),
                "folder": report.folder.as_ref().map(folder_json),
            }));
        }
        if !self.report.quiet {
            let has_base = match choice {
                Some(choice) => choice.base.is_some(),
                None => self.bases.is_some(),
            };
            say(input, destination, &report, seconds, has_base);
            if let ([file], None) = (&report.files[..], &report.folder) {
                say_other_kind(destination, file.storage);
            }
        }
        if let Some(folder) = &report.folder {
            say_others(folder, self.report.quiet);
        }
        Ok(())
    }
}

pub fn run(options: &Options) -> Outcome {
    options.family.check(&options.bases)?;
    if options.sha256.is_some() && options.inputs.len() > 1 {
        return Err(Error::Usage(
            "--sha256 is for a single file; pack the inputs one by one, or leave it out".into(),
        )
        .into());
    }
    let destinations = |extension| {
        let naming = Naming::Packed(extension);
        options.outputs.destinations(&options.inputs, &naming)
    };
    let (plain, deltas) = match (options.bases.is_some(), options.bases.is_auto()) {
        (true, true) => (destinations("zstn")?, Some(destinations("z4dm")?)),
        (true, false) => (destinations("z4dm")?, None),
        (false, _) => (destinations("zstn")?, None),
    };
    let http = options.network.options_for(&options.inputs, &plain)?;
    let http = options.report.watch(http);
    let job = Job::new().engine(&options.threads.engine()?).http(http);
    let job = options.memory.add_to(job, Job::memory_bytes);
    let inputs = options.inputs.iter().zip(&plain).enumerate();
    each(inputs, options.report.json, |(number, (input, plain))| {
        let Some(deltas) = &deltas else {
            return options.one(&job, input, plain, None);
        };
        let delta = &deltas[number];
        options.overwrite.check_any(&[plain, delta])?;
        let inputs = (input, &options.inputs[..]);
        let choice = options
            .family
            .choose(&job, inputs, options.extended, options.report)?;
        let destination = match choice.base {
            Some(_) => delta,
            None => plain,
        };
        options.one(&job, input, destination, Some(&choice))
    })
}

/// Prints a note if the extension of an output is that of another format.
fn say_other_kind(destination: &Destination, storage: Storage) {
    let path = destination.path().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (kind, what) = match storage {
        Storage::Delta { .. } => (
            FileKind::Delta,
            "a delta, which cannot be read without its base",
        ),
        _ => (FileKind::Zstn, "packed without a base"),
    };
    if kind_of_name(&name).is_some_and(|other| other != kind) {
        say!(
            "note: {destination} is {what}; such files are called .{}",
            kind.extension()
        );
    }
}

fn say(
    input: &Location,
    destination: &Destination,
    report: &PackReport,
    seconds: f64,
    has_base: bool,
) {
    let (original, packed) = (report.original_bytes(), report.packed_bytes());
    let mut files = String::new();
    if report.folder.is_some() {
        for file in &report.files {
            let output = file.output.as_deref().unwrap_or("-".as_ref());
            say!(
                "  {} → {}: {} → {} ({}){}",
                file.input,
                output.display(),
                size::bytes(file.original_bytes),
                size::bytes(file.packed_bytes),
                size::ratio(file.original_bytes, file.packed_bytes),
                shares(file)
            );
        }
        files = format!("{}, ", count(report.files.len(), "file"));
    }
    let shares = match (&report.files[..], &report.folder) {
        ([file], None) => shares(file),
        _ => String::new(),
    };
    say!(
        "{input} → {destination}: {files}{} → {} ({}){shares}, {seconds:.2} s, {}",
        size::bytes(original),
        size::bytes(packed),
        size::ratio(original, packed),
        size::rate(original, seconds),
    );
    for file in &report.files {
        say_upload(file.upload);
        if let Some(refusal) = file.original.as_ref().and_then(|of| of.refusal.as_ref()) {
            say!(
                "note: {} was packed as bytes, so no tensors can be read from it; unpack \
                 restores it exactly: {refusal}",
                file.input
            );
        }
        if let Storage::Delta {
            copied: 0,
            differing: 0,
            ..
        } = file.storage
            && file.tensors > 0
        {
            say!(
                "note: no tensor of {} is stored from the base, yet the result cannot be read \
                 without it; pack it without --base",
                file.input
            );
        }
        if file.storage == Storage::SingleFrame {
            say!(
                "note: {} breaks the safetensors rules, so it was packed as a whole{}, without \
                 checksums; unpack restores it exactly, single tensors cannot be read",
                file.input,
                match has_base {
                    true => ", without the base",
                    false => "",
                }
            );
        }
    }
}

/// Prints a note if an upload was resumed.
pub fn say_upload(upload: Option<Uploaded>) {
    if let Some(upload) = upload.filter(|upload| upload.parts_reused > 0) {
        let (reused, parts) = (upload.parts_reused, upload.parts);
        say!("note: an earlier upload was continued: {reused} of {parts} parts were there already");
    }
}

/// Returns an upload as JSON, or `null` if there was none.
pub fn upload_json(upload: Option<Uploaded>) -> Value {
    upload.map_or(Value::Null, |upload| {
        json!({
            "parts_sent": upload.parts - upload.parts_reused,
            "parts_reused": upload.parts_reused,
        })
    })
}

/// Describes how the tensors of a delta are stored. Returns an empty string for other
/// files.
fn shares(file: &PackedFile) -> String {
    match file.storage {
        Storage::Delta {
            copied,
            differing,
            whole,
            ..
        } => format!(
            ", {}: {copied} as in the base, {differing} as deltas, {whole} new or stored whole",
            count(file.tensors, "tensor")
        ),
        _ => String::new(),
    }
}

fn file_json(file: &PackedFile) -> Value {
    let mut object = json!({
        "input": file.input,
        "output": output_json(file.output.as_deref()),
        "original_bytes": file.original_bytes,
        "packed_bytes": file.packed_bytes,
        "tensors": file.tensors,
        "original_kind": file.original.as_ref().map(|original| &original.kind),
        "refusal": file.original.as_ref().and_then(|original| original.refusal.as_ref()),
        "upload": upload_json(file.upload),
    });
    match file.storage {
        Storage::Indexed { aliased, .. } => {
            object["storage"] = "indexed".into();
            object["aliased_tensors"] = aliased.into();
        }
        Storage::SingleFrame => object["storage"] = "single_frame".into(),
        Storage::Delta {
            copied,
            differing,
            whole,
            ..
        } => {
            object["storage"] = "delta".into();
            object["copied_tensors"] = copied.into();
            object["differing_tensors"] = differing.into();
            object["whole_tensors"] = whole.into();
        }
        _ => {}
    }
    object
}

/// Returns the path of an output, or `-` for standard output.
pub fn output_json(path: Option<&std::path::Path>) -> String {
    path.map_or_else(|| "-".into(), |path| path.display().to_string())
}

/// Returns the other files of a folder as JSON.
pub fn folder_json(folder: &FolderReport) -> Value {
    let texts = |paths: &[std::path::PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>()
    };
    json!({
        "index": folder.index,
        "copied_files": texts(&folder.copied),
        "copied_bytes": folder.copied_bytes,
        "not_packed": folder.not_packed.iter().map(|(path, reason)| json!({
            "name": path.display().to_string(),
            "message": reason,
        })).collect::<Vec<_>>(),
        "missing_tensors": folder.missing_tensors,
        "left_out": texts(&folder.left_out),
    })
}

/// Prints the files that were copied. Files and tensors that are missing from the
/// result are printed even with `--quiet`, because the result looks complete without
/// them.
pub fn say_others(folder: &FolderReport, quiet: bool) {
    let texts = |paths: &[std::path::PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>().join(", ")
    };
    if !folder.copied.is_empty() && !quiet {
        say!(
            "copied as they are, {}: {}",
            size::bytes(folder.copied_bytes),
            texts(&folder.copied)
        );
    }
    for (path, reason) in &folder.not_packed {
        say!(
            "warning: {} was copied, not packed: {reason}",
            path.display()
        );
    }
    if !folder.missing_tensors.is_empty() {
        say!(
            "warning: the index lists these tensors, but no file has them: {}",
            list(&folder.missing_tensors)
        );
    }
    if !folder.left_out.is_empty() {
        say!(
            "warning: left out: {} (.git, links to folders, and what is neither a file nor a folder)",
            texts(&folder.left_out)
        );
    }
}

/// Joins names for a message, at most 20 of them.
pub fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    match names.split_at_checked(MOST) {
        Some((first, rest @ [_, ..])) => {
            format!("{} and {} more", first.join(", "), rest.len())
        }
        _ => names.join(", "),
    }
}

/// Returns a count with its noun: `1 file`, `2 files`.
pub fn count(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
