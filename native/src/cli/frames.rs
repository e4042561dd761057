//! `zstn compress` and `zstn decompress`: single frames, as z4ai's own
//! command line makes and reads them.

use std::path::{Path, PathBuf};

use clap::Args;
use zstn::source::Source;
use zstn::{Error, Native, Output, Result};
use zstn_core::dtype::Dtype;
use zstn_core::frame;

use super::pack::Effort;
use super::{place, print, say, size};

#[derive(Args)]
pub struct CompressOptions {
    /// Any file: a path, an http(s) address, or - for standard input
    input: String,
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
    /// Replace an existing file even if its name was not given
    #[arg(long)]
    force: bool,
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
    input: String,
    /// The original [default: the input's name without .z4ai]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Most bytes it may decode to
    #[arg(long, default_value = "64G", value_name = "SIZE", value_parser = size::parse)]
    limit: u64,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    /// Replace an existing file even if its name was not given
    #[arg(long)]
    force: bool,
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
    let behind = |input: &Path| format!("{}.z4ai", input.display()).into();
    let output = options.output.as_deref();
    let target = place::output(&options.input, output, behind, options.force)?;
    let engine = Native::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let frame = zstn::compress(&engine, &input, options.dtype, options.effort.into());
    let lens = (input.len_bytes(), frame.len() as u64);
    finish(&options.input, &target, &frame, lens, silent, options.json)
}

pub fn decompress(options: &DecompressOptions) -> Result<()> {
    let silent = options.quiet || options.json;
    let without = |input: &Path| {
        let name = input.display().to_string();
        match name.strip_suffix(".z4ai") {
            Some(stem) => stem.into(),
            None => format!("{name}.out").into(),
        }
    };
    let output = options.output.as_deref();
    let target = place::output(&options.input, output, without, options.force)?;
    let engine = Native::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let bytes =
        frame::decompress(&engine, &input, options.limit).map_err(|source| Error::Format {
            place: options.input.clone(),
            source,
        })?;
    let lens = (bytes.len() as u64, input.len_bytes());
    finish(&options.input, &target, &bytes, lens, silent, options.json)
}

fn finish(
    input: &str,
    target: &Path,
    bytes: &[u8],
    (original, packed): (u64, u64),
    silent: bool,
    json: bool,
) -> Result<()> {
    let mut output = Output::create(target)?;
    output.write(bytes)?;
    output.finish()?;
    if json {
        return print(serde_json::json!({
            "input": input,
            "output": target.display().to_string(),
            "original_bytes": original,
            "packed_bytes": packed,
        }));
    }
    if !silent {
        say!(
            "{input} → {}: {} original, {} packed ({})",
            target.display(),
            size::bytes(original),
            size::bytes(packed),
            size::ratio(original, packed)
        );
    }
    Ok(())
}
