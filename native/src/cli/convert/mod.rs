//! `zstn convert`

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use zstn::convert::{ConvertOptions, ConvertReport, Report, Target, TargetKind, convert};
use zstn::source::Place;
use zstn::{Engine, Error, Result};
use zstn_core::container::foreign::compressed_tensors;
use zstn_core::container::foreign::ztensor::DigestKind;

use super::{pack, place, print, progress, say, size};

mod gauss;

#[derive(Args)]
pub struct Options {
    /// Checkpoint of any kind: a path or an http(s) address
    #[arg(value_parser = place::parser())]
    input: Place,
    /// What to write: .safetensors, .zstn, .zt, .gauss, a folder for
    /// compressed-tensors, or .safetensors.index.json or .zstn.index.json for
    /// several files
    output: PathBuf,
    /// Kind of output [default: as its name says]
    #[arg(long, value_name = "KIND", value_parser = kind)]
    to: Option<TargetKind>,
    /// The checkpoint that a difference was packed against
    #[arg(long, value_name = "BASE", value_parser = place::parser())]
    base: Option<Place>,
    /// Most bytes of tensors in a file of several, like 5G [default: 5G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    shard_size: Option<u64>,
    /// Threads, 0 for one per core
    #[arg(long, visible_alias = "workers", default_value_t = 0, value_name = "N")]
    threads: usize,
    /// Memory to stay within, like 512M
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = size::parse)]
    memory: u64,
    /// To zstn: time against size [default: balanced]
    #[arg(long, value_enum)]
    effort: Option<pack::Effort>,
    /// To zTensor: store tensors as zstd frames
    #[arg(long)]
    zstd: bool,
    /// To zTensor: give every tensor a checksum
    #[arg(long, value_enum)]
    checksum: Option<Checksum>,
    /// To compressed-tensors: how weights are stored [default: sparse-bitmask]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten, next_help_heading = "To Gauss")]
    gauss: gauss::GaussOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum Checksum {
    Crc32c,
    Sha256,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    SparseBitmask,
    #[value(name = "sparse-24-bitmask")]
    Sparse24Bitmask,
}

fn kind(text: &str) -> Result<TargetKind, String> {
    let kinds = TargetKind::ALL;
    let found = kinds.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = kinds.into_iter().map(TargetKind::name).collect();
        format!("a kind is one of {}", names.join(", "))
    })
}

impl Options {
    fn target(&self) -> Result<Target> {
        let kind = self.to.or_else(|| TargetKind::from_path(&self.output));
        let kind = kind.ok_or_else(|| {
            let output = self.output.display();
            let hint = match self.output.extension().and_then(|e| e.to_str()) {
                Some("z4dm") => "; `zstn pack --base` makes differences",
                _ => "",
            };
            Error::Usage(format!(
                "the name {output} does not say what to make: end it in .safetensors, .zstn, .zt, \
                 .gauss or /, or say --to{hint}"
            ))
        })?;
        self.check(kind)?;
        Ok(match kind {
            TargetKind::Safetensors => Target::Safetensors,
            TargetKind::Zstn => Target::Zstn {
                effort: self.effort.unwrap_or_default().into(),
            },
            TargetKind::ZTensor => Target::ZTensor {
                is_zstd: self.zstd,
                checksum: self.checksum.map(|checksum| match checksum {
                    Checksum::Crc32c => DigestKind::Crc32c,
                    Checksum::Sha256 => DigestKind::Sha256,
                }),
            },
            TargetKind::Gauss => Target::Gauss(self.gauss.options()?),
            TargetKind::CompressedTensors => Target::CompressedTensors {
                format: match self.format {
                    Some(Format::Sparse24Bitmask) => compressed_tensors::Format::Sparse24Bitmask,
                    _ => compressed_tensors::Format::SparseBitmask,
                },
            },
        })
    }

    /// Refuses options that this kind has no use for.
    fn check(&self, kind: TargetKind) -> Result<()> {
        let is_several = kind == TargetKind::CompressedTensors || is_index(&self.output);
        let given = [
            ("--effort", self.effort.is_some(), kind == TargetKind::Zstn),
            ("--zstd", self.zstd, kind == TargetKind::ZTensor),
            (
                "--checksum",
                self.checksum.is_some(),
                kind == TargetKind::ZTensor,
            ),
            (
                "--format",
                self.format.is_some(),
                kind == TargetKind::CompressedTensors,
            ),
            ("--shard-size", self.shard_size.is_some(), is_several),
        ];
        let of_gauss = self.gauss.given();
        let of_gauss = of_gauss.map(|(name, is_given)| (name, is_given, kind == TargetKind::Gauss));
        let useless = given.into_iter().chain(of_gauss);
        match { useless }.find(|(_, is_given, is_useful)| *is_given && !is_useful) {
            None => Ok(()),
            Some(("--shard-size", ..)) => Err(Error::Usage(
                "--shard-size is for several files: name an index, like \
                 model.safetensors.index.json"
                    .into(),
            )),
            Some((name, ..)) => Err(Error::Usage(format!(
                "{name} means nothing to a {} output",
                kind.name()
            ))),
        }
    }
}

fn is_index(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy()
        .ends_with(zstn_core::container::safetensors::SHARD_INDEX_SUFFIX)
}

pub fn run(options: &Options) -> Result<()> {
    let silent = options.quiet || options.json;
    let target = options.target()?;
    let engine = Engine::new(options.threads)?;
    let bar = progress::watch("converting", silent);
    let lines = gauss::Lines::new(bar.bar(), engine.threads(), silent);
    let defaults = ConvertOptions::default();
    let started = Instant::now();
    let report = convert(
        &engine,
        options.input.clone(),
        &options.output,
        &target,
        &ConvertOptions {
            base: options.base.as_ref(),
            memory_bytes: options.memory,
            shard_len_bytes: options.shard_size.unwrap_or(defaults.shard_len_bytes),
            replace: options.overwrite.force,
            progress: &bar,
            gauss: &lines,
        },
    );
    drop(lines);
    drop(bar);
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        return print(json(options, &report, seconds));
    }
    if !options.quiet {
        say(options, &report, seconds);
    }
    Ok(())
}

fn say(options: &Options, report: &ConvertReport, seconds: f64) {
    let files = match report.files.len() {
        1 => String::new(),
        count => format!(" in {count} files"),
    };
    say!(
        "{} → {}: {} tensors, {} → {}{files} ({}), {seconds:.2} s, {}",
        options.input,
        options.output.display(),
        report.tensors,
        size::bytes(report.tensors_len_bytes),
        size::bytes(report.written_bytes),
        size::ratio(report.tensors_len_bytes, report.written_bytes),
        size::rate(report.tensors_len_bytes, seconds),
    );
    match &report.detail {
        Report::Exact => {}
        Report::Gauss(tensors) => gauss::say(tensors),
        Report::Sparse(count) => say!("{count} tensors are stored sparse, the others whole"),
    }
    if report.is_decoded {
        say!(
            "note: the values are those that the {} input stands for, exactly",
            report.from.name()
        );
    }
    if report.is_rotated {
        say!("note: the weights had been rotated before they were quantised, and still are");
    }
    if !report.dropped.is_empty() {
        say!(
            "note: metadata that a {} output has no place for were dropped: {}",
            report.to.name(),
            report.dropped.join(", ")
        );
    }
}

fn json(options: &Options, report: &ConvertReport, seconds: f64) -> serde_json::Value {
    let files = report.files.iter().map(|file| file.display().to_string());
    let mut json = serde_json::json!({
        "input": options.input.to_string(),
        "output": options.output.display().to_string(),
        "from": report.from.name(),
        "to": report.to.name(),
        "tensors": report.tensors,
        "tensor_bytes": report.tensors_len_bytes,
        "written_bytes": report.written_bytes,
        "files": files.collect::<Vec<_>>(),
        "dropped": report.dropped,
        "decoded": report.is_decoded,
        "rotated": report.is_rotated,
        "lossy": report.to == TargetKind::Gauss,
        "seconds": seconds,
    });
    match &report.detail {
        Report::Exact => {}
        Report::Gauss(tensors) => json["gauss"] = gauss::json(tensors),
        Report::Sparse(count) => json["sparse"] = (*count).into(),
    }
    json
}
