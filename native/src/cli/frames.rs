//! `zstn compress` and `zstn decompress`: single frames, as z4ai's own
//! command line makes and reads them.

use std::path::{Path, PathBuf};

use clap::Args;
use zstn::source::{Map, Place, Source};
use zstn::{Error, Native, Output, Result};
use zstn_core::dtype::Dtype;
use zstn_core::frame;

use super::pack::Effort;
use super::{place, print, size};

#[derive(Args)]
pub struct CompressOptions {
    /// Any file: a path, an http(s) address, or - for standard input
    #[arg(value_parser = place::parser())]
    input: Place,
    /// The frame [default: the input's name with .z4ai behind it]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What the bytes are, like bf16, f32 or BF16; without, just bytes
    #[arg(long, value_parser = dtype)]
    dtype: Option<Dtype>,
    /// Time against size
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DecompressOptions {
    /// A frame: a path, an http(s) address, or - for standard input
    #[arg(value_parser = place::parser())]
    input: Place,
    /// The original [default: the input's name without .z4ai]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Most bytes it may decode to
    #[arg(long, default_value = "64G", value_name = "SIZE", value_parser = size::parse)]
    limit: u64,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

fn dtype(text: &str) -> std::result::Result<Dtype, String> {
    Dtype::from_name(text)
        .ok_or_else(|| format!("`{text}` is no dtype; bf16, f16, f32, f64, i8 … u64 are"))
}

pub fn compress(options: &CompressOptions) -> Result<()> {
    let silent = options.quiet || options.json;
    let appended = |input: &Path| with_suffix(input, ".z4ai");
    let target = place::output(&options.input, options.output.as_deref(), appended);
    let output = options.overwrite.begin(&target)?;
    let engine = Native::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let frame = zstn::compress(&engine, &input, options.dtype, options.effort.into());
    let lens = (input.len_bytes(), frame.len() as u64);
    let done = Done {
        input: &options.input,
        target: &target,
        lens_bytes: lens,
    };
    write(&input, output, &frame)?;
    done.report(silent, options.json)
}

/// `path` with `suffix` appended to its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn decompress(options: &DecompressOptions) -> Result<()> {
    let silent = options.quiet || options.json;
    let without = |input: &Path| match input.extension() {
        Some(extension) if extension == "z4ai" => input.with_extension(""),
        _ => with_suffix(input, ".out"),
    };
    let target = place::output(&options.input, options.output.as_deref(), without);
    let output = options.overwrite.begin(&target)?;
    let engine = Native::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let bytes =
        frame::decompress(&engine, &input, options.limit).map_err(|source| Error::Format {
            place: options.input.to_string(),
            source,
        })?;
    let lens = (bytes.len() as u64, input.len_bytes());
    let done = Done {
        input: &options.input,
        target: &target,
        lens_bytes: lens,
    };
    write(&input, output, &bytes)?;
    done.report(silent, options.json)
}

fn write(input: &Map, mut output: Output, bytes: &[u8]) -> Result<()> {
    output.check_inputs(&[input])?;
    output.write(bytes)?;
    input.check_unchanged()?;
    output.finish()
}

/// What was made of what.
struct Done<'a> {
    input: &'a Place,
    target: &'a Path,
    /// Of the original and of the frame.
    lens_bytes: (u64, u64),
}

impl Done<'_> {
    fn report(&self, silent: bool, json: bool) -> Result<()> {
        let (input, target) = (self.input, self.target.display());
        let (original, packed) = self.lens_bytes;
        if json {
            return print(serde_json::json!({
                "input": input.to_string(),
                "output": target.to_string(),
                "original_bytes": original,
                "packed_bytes": packed,
            }));
        }
        if !silent {
            eprintln!(
                "{input} → {target}: {} original, {} packed ({})",
                size::bytes(original),
                size::bytes(packed),
                size::ratio(original, packed)
            );
        }
        Ok(())
    }
}
