//! `zstn convert`: writes a checkpoint in another format.

use std::path::Path;
use std::time::Instant;

use clap::{Args, ValueEnum};
use zstn::convert::{Detail, Target, TargetKind};
use zstn::{ConvertOptions, ConvertReport, Error, Job, Location, Result};
use zstn_core::catalog::{FileKind, IndexName, has_extension};
use zstn_core::container::foreign::compressed_tensors;
use zstn_core::container::foreign::ztensor::DigestKind;

use super::arguments::{self, Destination, Memory, Overwrite, Report, Stored, Threads};
use super::base_options::Bases;
use super::network::{FullDownload, Network};
use super::progress::Direction;
use super::{pack, print, progress, say, size};

mod gauss;

#[derive(Args)]
pub struct Options {
    /// Checkpoint of any kind: a path, an address, or - for standard input
    #[arg(value_parser = arguments::location())]
    input: Location,
    /// Output, whose format is given by its name: .safetensors, .zstn, .zt, .gauss, a
    /// folder (with a slash) for compressed-tensors, .safetensors.index.json or
    /// .zstn.index.json for several files, or - for standard output
    #[arg(value_parser = arguments::destination())]
    output: Option<Destination>,
    /// OUTPUT as an option
    #[arg(short, long = "output", value_name = "OUTPUT", conflicts_with = "output", value_parser = arguments::destination())]
    output_option: Option<Destination>,
    /// Write to standard output, like -o -
    #[arg(short = 'c', long, conflicts_with_all = ["output", "output_option"])]
    stdout: bool,
    /// Format of the output, by name or extension, like zt [default: given by the name
    /// of the output]
    #[arg(long, value_name = "KIND", value_parser = kind)]
    to: Option<TargetKind>,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    stored: Stored,
    /// Maximum bytes of tensors per file of a sharded output, like 5G [default: 5G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    shard_size: Option<u64>,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
    /// To zstn: speed/size trade-off [default: balanced]
    #[arg(long, value_enum)]
    effort: Option<pack::Effort>,
    #[command(flatten)]
    extended: pack::Extended,
    /// To zTensor: store tensors as zstd frames
    #[arg(long)]
    zstd: bool,
    /// To zTensor: give every tensor a checksum
    #[arg(long, value_enum)]
    checksum: Option<Checksum>,
    /// To compressed-tensors: storage format of weights [default: sparse-bitmask]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    full_download: FullDownload,
    #[command(flatten)]
    network: Network,
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
    TargetKind::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = TargetKind::ALL.into_iter().map(TargetKind::name).collect();
        format!("a kind is one of {}", names.join(", "))
    })
}

impl Options {
    fn destination(&self) -> Result<&Destination> {
        let given = self.output.as_ref().or(self.output_option.as_ref());
        match given {
            Some(destination) => Ok(destination),
            None if self.stdout || self.input == Location::Stdin => Ok(&Destination::Stdout),
            None => Err(Error::Usage(
                "there is no output; name it with -o, or - for standard output".into(),
            )),
        }
    }

    /// Returns the file in the folder `destination` that is named after the input, if
    /// `destination` is a folder and the result is a file.
    fn inside(&self, destination: &Destination, target: &Target) -> Destination {
        let kind = target.kind();
        if kind == TargetKind::CompressedTensors || !destination.is_folder() {
            return destination.clone();
        }
        let name = self.input.file_name().unwrap_or_else(|| "model".into());
        let index = IndexName::parse(&name).map(|index| index.stem());
        let mut kinds = FileKind::FILES.iter();
        let (stem, _) = name.rsplit_once('.').unwrap_or((&name, ""));
        let stem = kinds
            .any(|kind| has_extension(&name, *kind))
            .then_some(stem);
        let stem = index.or(stem).unwrap_or(&name);
        destination.join(format!("{stem}.{}", kind.extension()).as_ref())
    }

    fn target(&self, destination: &Destination) -> Result<Target> {
        let path = destination.path();
        let path = path.as_deref();
        let kind = self.to.or_else(|| path.and_then(TargetKind::from_path));
        let kind = kind.ok_or_else(|| {
            let hint = match path.and_then(|path| path.extension()?.to_str()) {
                Some("z4dm") => "; `zstn pack --base` makes deltas",
                _ => "",
            };
            Error::Usage(format!(
                "the name {destination} does not name a format that `convert` writes: end it in \
                 .safetensors, .zstn, .zt, .gauss or /, or use --to{hint}"
            ))
        })?;
        self.check(kind, path)?;
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
                    Some(Format::Sparse24Bitmask) => {
                        compressed_tensors::WeightFormat::Sparse24Bitmask
                    }
                    _ => compressed_tensors::WeightFormat::SparseBitmask,
                },
            },
            kind => {
                let detail = format!("{} files cannot be written", kind.name());
                return Err(Error::Usage(detail));
            }
        })
    }

    /// Refuses options that have no effect on this output format.
    fn check(&self, kind: TargetKind, path: Option<&Path>) -> Result<()> {
        let is_several = kind == TargetKind::CompressedTensors || path.is_some_and(is_index);
        let given = [
            ("--effort", self.effort.is_some(), kind == TargetKind::Zstn),
            (
                "--extended",
                self.extended.is_set(),
                kind == TargetKind::Zstn,
            ),
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
        if self.shard_size == Some(0) {
            return Err(Error::Usage("--shard-size is at least one byte".into()));
        }
        match { useless }.find(|(_, is_given, is_useful)| *is_given && !is_useful) {
            None => Ok(()),
            Some(("--shard-size", ..)) => Err(Error::Usage(
                "--shard-size is for several files: name an index, like \
                 model.safetensors.index.json"
                    .into(),
            )),
            Some((name, ..)) => Err(Error::Usage(format!(
                "{name} has no effect on a {} output",
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
    let silent = options.report.is_silent();
    let destination = options.destination()?;
    let target = options.target(destination)?;
    let destination = &options.inside(destination, &target);
    let input = std::slice::from_ref(&options.input);
    let output = std::slice::from_ref(destination);
    let http = options.network.options_for(input, output)?;
    let http = options.full_download.add_to(options.report.watch(http));
    let sink = options.overwrite.sink(destination)?;
    let engine = options.threads.engine()?;
    let direction = match target.kind() {
        TargetKind::Zstn => Direction::Packing,
        _ => Direction::Reading,
    };
    let bar = progress::watch("converting", direction, options.report);
    let lines = gauss::Lines::new(engine.threads(), silent);
    let mut converting = ConvertOptions::default()
        .view(options.stored.view())
        .extended(options.extended.is_set())
        .gauss(&lines);
    if let Some(bytes) = options.shard_size {
        converting = converting.shard_bytes(bytes);
    }
    converting = options.bases.add_to(converting, |o, base| o.base(base));
    let started = Instant::now();
    let job = Job::new().engine(&engine).http(http).progress(&bar);
    let job = options.memory.add_to(job, Job::memory_bytes);
    let report = zstn::convert(&job, &options.input, sink, &target, &converting);
    drop(lines);
    drop(bar);
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    if options.report.json {
        return print(json(options, destination, &report, seconds));
    }
    if !options.report.quiet {
        say(options, destination, &report, seconds);
    }
    Ok(())
}

fn say(options: &Options, destination: &Destination, report: &ConvertReport, seconds: f64) {
    let shards = report.files.iter().filter(|file| !is_index(file)).count();
    let files = match shards < report.files.len() {
        true => format!(" in {}", pack::count(shards, "shard")),
        false => String::new(),
    };
    say!(
        "{} → {destination}: {}, {} → {}{files} ({}), {seconds:.2} s, {}",
        options.input,
        pack::count(report.tensors, "tensor"),
        size::bytes(report.tensor_bytes),
        size::bytes(report.written_bytes),
        size::ratio(report.tensor_bytes, report.written_bytes),
        size::rate(report.tensor_bytes, seconds),
    );
    match &report.detail {
        Detail::Exact => {}
        Detail::Gauss(tensors) => gauss::say(tensors),
        Detail::Sparse(count) => match count {
            1 => say!("1 tensor is stored sparse, the others whole"),
            count => say!("{count} tensors are stored sparse, the others whole"),
        },
        _ => {}
    }
    if report.is_decoded {
        say!(
            "note: the values are exactly the decoded values of the {} input",
            report.from.name()
        );
    }
    if report.is_rotated {
        say!("note: the weights had been rotated before they were quantised, and still are");
    }
    if !report.dropped.is_empty() {
        say!(
            "note: {} cannot store these metadata keys, which were dropped: {}",
            report.to.name(),
            report.dropped.join(", ")
        );
    }
}

fn json(
    options: &Options,
    destination: &Destination,
    report: &ConvertReport,
    seconds: f64,
) -> serde_json::Value {
    let files = report.files.iter().map(|file| file.display().to_string());
    let mut json = serde_json::json!({
        "input": options.input.to_string(),
        "bases": options.bases.names(),
        "output": destination.to_string(),
        "from": report.from.name(),
        "to": report.to.name(),
        "tensors": report.tensors,
        "original_bytes": report.tensor_bytes,
        "packed_bytes": report.written_bytes,
        "files": files.collect::<Vec<_>>(),
        "dropped": report.dropped,
        "decoded": report.is_decoded,
        "rotated": report.is_rotated,
        "lossy": report.to == TargetKind::Gauss,
        "seconds": seconds,
    });
    match &report.detail {
        Detail::Exact => {}
        Detail::Gauss(tensors) => json["gauss"] = gauss::json(tensors),
        Detail::Sparse(count) => json["sparse_tensors"] = (*count).into(),
        _ => {}
    }
    json
}
