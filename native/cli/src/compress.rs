//! `zstn compress` and `zstn decompress`: single frames in the format of z4ai's command
//! line, and deltas between two files in the format of z4ai's library.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use zstn::internals::Output;
use zstn::source::{HttpOptions, Local, Source};
use zstn::{Engine, Error, Location, Result};
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame;
use zstn_core::frame::delta::{self, Delta};

use super::arguments::{self, Destination, Overwrite, Report, Threads};
use super::network::Network;
use super::pack::Effort;
use super::progress::Direction;
use super::{print, progress, say, size};

#[derive(Args)]
pub struct CompressOptions {
    /// Any file: a path, an address, or - for standard input
    #[arg(value_parser = arguments::location())]
    input: Location,
    /// The frame [default: the input's name with .z4ai appended, or with .z4dl for a
    /// delta]
    #[arg(short, long, value_parser = arguments::destination())]
    output: Option<Destination>,
    /// Store only the delta from this file, which must have the same length
    #[arg(long, value_name = "BASE", value_parser = arguments::location())]
    base: Option<Location>,
    /// Dtype of the elements, like bf16, f32 or BF16 [default: plain bytes]
    #[arg(long, value_parser = dtype)]
    dtype: Option<Dtype>,
    /// Speed/size trade-off
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

#[derive(Args)]
pub struct DecompressOptions {
    /// A frame: a path, an address, or - for standard input
    #[arg(value_parser = arguments::location())]
    input: Location,
    /// The original [default: the input's name without .z4ai or .z4dl]
    #[arg(short, long, value_parser = arguments::destination())]
    output: Option<Destination>,
    /// The file against which a delta was compressed
    #[arg(long, value_name = "BASE", value_parser = arguments::location())]
    base: Option<Location>,
    /// Maximum decoded length
    #[arg(long, default_value = "64G", value_name = "SIZE", value_parser = size::parse)]
    limit: u64,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

fn dtype(text: &str) -> std::result::Result<Dtype, String> {
    Dtype::from_name(text)
        .ok_or_else(|| format!("`{text}` is not a dtype; bf16, f16, f32, f64, i8 … u64 are"))
}

pub fn compress(options: &CompressOptions) -> Result<()> {
    let suffix = match &options.base {
        None => ".z4ai",
        Some(_) => ".z4dl",
    };
    let appended = |input: &Path| with_suffix(input, suffix);
    let input = std::slice::from_ref(&options.input);
    let http = options
        .network
        .options_for(input, options.output.as_slice())?;
    let http = options.report.watch(http);
    let target = output(&options.input, options.output.as_ref(), appended);
    let output = options.overwrite.begin(&target, &http)?;
    let engine = options.threads.engine()?;
    let input = fetch(&options.input, &http, options.report)?;
    let base = options.base.as_ref();
    let base = base
        .map(|base| fetch(base, &http, options.report))
        .transpose()?;
    let (dtype, effort) = (options.dtype, options.effort.into());
    let bytes = input.read_all()?;
    let frame = match &base {
        None => zstn::compress(&engine, &bytes, dtype, effort),
        Some(base) => {
            check_len(&input, base)?;
            let (bytes, base) = (TensorRef::flat(&bytes, dtype), base.read_all()?);
            delta::encode(&engine, bytes, &base, effort.into()).map_err(refused(&options.input))?
        }
    };
    let done = Done {
        input: &options.input,
        base: options.base.as_ref(),
        target: &target,
        original_bytes: input.len_bytes(),
        packed_bytes: frame.len() as u64,
        is_restored: false,
    };
    write(&[Some(&input), base.as_ref()], output, &frame)?;
    done.report(options.report)
}

/// Returns the destination of the result: `output` if it is given, otherwise the `name`
/// derived from the input's.
fn output(
    input: &Location,
    output: Option<&Destination>,
    name: impl Fn(&Path) -> PathBuf,
) -> Destination {
    match (output, input) {
        (Some(output), _) => output.clone(),
        (None, Location::Stdin) => Destination::Stdout,
        (None, Location::Path(path) | Location::Pipe(path)) => Destination::Path(name(path)),
        (None, Location::Url(_)) => {
            let file = input.file_name().unwrap_or_else(|| "file".into());
            Destination::Path(name(Path::new(&file)))
        }
    }
}

/// Makes all of `location` available, showing the progress of a download.
fn fetch(location: &Location, http: &HttpOptions, report: Report) -> Result<Local> {
    let Location::Url(_) = location else {
        return location.fetch(http, &|_, _| ());
    };
    let bar = progress::watch("fetching", Direction::Reading, report);
    location.fetch(http, &|so_far, total| bar.fetched(so_far, total))
}

/// Returns `path` with `suffix` appended to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn decompress(options: &DecompressOptions) -> Result<()> {
    let without = |input: &Path| match input.extension() {
        Some(extension) if extension == "z4ai" || extension == "z4dl" => input.with_extension(""),
        _ => with_suffix(input, ".out"),
    };
    let input = std::slice::from_ref(&options.input);
    let http = options
        .network
        .options_for(input, options.output.as_slice())?;
    let http = options.report.watch(http);
    let target = output(&options.input, options.output.as_ref(), without);
    let output = options.overwrite.begin(&target, &http)?;
    let engine = options.threads.engine()?;
    let input = fetch(&options.input, &http, options.report)?;
    check_base(&input, options.base.as_ref())?;
    let base = options.base.as_ref();
    let base = base
        .map(|base| fetch(base, &http, options.report))
        .transpose()?;
    let bytes = match &base {
        None => {
            let bytes = frame::decompress(&engine, &input.read_all()?, options.limit);
            bytes.map_err(refused(&options.input))?
        }
        Some(base) => restore(&engine, &input, base, options.limit)?,
    };
    let done = Done {
        input: &options.input,
        base: options.base.as_ref(),
        target: &target,
        original_bytes: bytes.len() as u64,
        packed_bytes: input.len_bytes(),
        is_restored: true,
    };
    write(&[Some(&input), base.as_ref()], output, &bytes)?;
    done.report(options.report)
}

/// Checks that a base is given for a delta, and for no other input.
fn check_base(input: &Local, base: Option<&Location>) -> Result<()> {
    let name = input.name();
    let head = input.read(0..input.len_bytes().min(delta::MAGIC.len() as u64))?;
    match (*head == delta::MAGIC, base) {
        (true, None) => Err(Error::Usage(format!(
            "{name} is a delta from another file; name that file with --base"
        ))),
        (false, Some(base)) => Err(Error::Usage(format!(
            "{name} is not a delta, so it takes no base; leave out {base}"
        ))),
        (true, Some(_)) | (false, None) => Ok(()),
    }
}

fn check_len(input: &Local, base: &Local) -> Result<()> {
    if input.len_bytes() == base.len_bytes() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} has {} bytes, {} has {}: a delta needs files of the same length; compress the file \
         without --base",
        input.name(),
        input.len_bytes(),
        base.name(),
        base.len_bytes()
    )))
}

/// Decodes the delta `input` with its base.
fn restore(engine: &Engine, input: &Local, base: &Local, limit: u64) -> Result<Vec<u8>> {
    let refuse = |error| refused(format!("{} with the base {}", input.name(), base.name()))(error);
    let bytes = input.read_all()?;
    let delta = Delta::parse(&bytes).map_err(refuse)?;
    if delta.len_bytes() > limit {
        let detail = format!(
            "the file is of {} bytes, over the limit of {limit}",
            delta.len_bytes()
        );
        return Err(refuse(zstn_core::Error::limit(detail)));
    }
    delta.decode(engine, &base.read_all()?).map_err(refuse)
}

fn refused(place: impl Display) -> impl FnOnce(zstn_core::Error) -> Error {
    let place = place.to_string();
    move |source| Error::Format { place, source }
}

fn write(inputs: &[Option<&Local>], mut output: Output, bytes: &[u8]) -> Result<()> {
    for input in inputs.iter().flatten() {
        output.check_inputs(&[*input])?;
    }
    output.write(bytes)?;
    for input in inputs.iter().flatten() {
        input.check_unchanged()?;
    }
    output.finish()
}

/// The files and lengths to report about a result.
struct Done<'a> {
    input: &'a Location,
    base: Option<&'a Location>,
    target: &'a Destination,
    original_bytes: u64,
    packed_bytes: u64,
    /// True if the result is the original.
    is_restored: bool,
}

impl Done<'_> {
    fn report(&self, report: Report) -> Result<()> {
        let (input, target) = (self.input, self.target);
        let (original, packed) = (self.original_bytes, self.packed_bytes);
        if report.json {
            return print(serde_json::json!({
                "input": input.to_string(),
                "bases": self.base.iter().map(|base| base.to_string()).collect::<Vec<_>>(),
                "output": target.to_string(),
                "original_bytes": original,
                "packed_bytes": packed,
            }));
        }
        if !report.quiet {
            let lens = (size::bytes(original), size::bytes(packed));
            match self.is_restored {
                true => say!("{input} → {target}: {} → {}", lens.1, lens.0),
                false => say!(
                    "{input} → {target}: {} → {} ({})",
                    lens.0,
                    lens.1,
                    size::ratio(original, packed)
                ),
            }
        }
        Ok(())
    }
}
