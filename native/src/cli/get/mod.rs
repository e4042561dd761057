//! `zstn get`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use zstn::source::Source;
use zstn::{Output, Reader, Result, Tensor};
use zstn_core::model::Rows;

use super::stdout::Stdout;
use super::{place, print, rows, say, size, table, terminal};
use file::Format;
use stats::Stats;

mod file;
mod stats;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    model: place::Model,
    /// Name of the tensor, as `zstn ls` prints it
    name: String,
    /// Only these rows, slices of the outermost dimension: one like 5, or the
    /// first and the one to stop before, as in 100..200 or 100:200; either may
    /// be left out, and negative ones count from the end
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    rows: Option<rows::Bounds>,
    /// Write the tensor to this file: .npy (BF16, which NumPy lacks, as
    /// float32), .safetensors, or .bin, .raw or no extension for the raw
    /// bytes; - for raw bytes on standard output [default: a summary on a
    /// terminal, raw bytes to a file or pipe]
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Print the summary even if standard output is not a terminal
    #[arg(long, conflicts_with = "output")]
    summary: bool,
    /// Print the description as JSON
    #[arg(long)]
    pub json: bool,
}

/// Where the bytes go.
enum Target<'a> {
    Nowhere,
    Stdout,
    File(Output, &'a Path, Format),
}

impl Options {
    fn target(&self) -> Result<Target<'_>> {
        Ok(match &self.output {
            Some(path) if path.as_os_str() == "-" => {
                terminal::refuse_binary(path, self.overwrite.force)?;
                Target::Stdout
            }
            Some(path) => {
                let format = Format::of(path)?;
                Target::File(self.overwrite.begin(path)?, path, format)
            }
            None if self.json || self.summary || std::io::stdout().is_terminal() => Target::Nowhere,
            None => Target::Stdout,
        })
    }
}

pub fn run(options: &Options) -> Result<()> {
    let mut target = options.target()?;
    let reader = options.model.open()?;
    if let Target::File(output, _, format) = &mut target {
        format.check(reader.find(&options.name)?.dtype)?;
        let mut input = Some(&reader);
        while let Some(each) = input {
            let sources: Vec<&dyn Source> = each.sources().iter().map(|s| &**s).collect();
            output.check_inputs(&sources)?;
            input = each.base();
        }
    }
    let plan = options.rows.as_ref();
    let plan = plan.map(|bounds| rows::plan(&reader, &options.name, bounds));
    let plan = plan.transpose()?;
    let tensor = match &plan {
        None => reader.read(&options.name)?,
        Some(rows) => reader.read_planned(rows)?,
    };
    match target {
        Target::Stdout => {
            let mut out = Stdout::new();
            out.bytes(&tensor.bytes)?;
            // Standard output is taken; there is no place for a description.
            return out.finish();
        }
        Target::File(output, path, format) => {
            format.write(&tensor, output)?;
            if !options.json {
                say!("{} → {}", tensor.name, path.display());
                if let Some(note) = format.note(tensor.dtype) {
                    say!("note: {note}");
                }
                return Ok(());
            }
        }
        Target::Nowhere => {}
    }
    match options.json {
        true => print(json(options, &tensor, plan.as_ref())),
        false => summary(&reader, &tensor, plan.as_ref()),
    }
}

/// The description for scripts.
fn json(options: &Options, tensor: &Tensor, plan: Option<&Rows>) -> serde_json::Value {
    let stats = Stats::of(tensor);
    let output = options.output.as_ref();
    serde_json::json!({
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape,
        "len_bytes": tensor.bytes.len(),
        "min": stats.as_ref().map(|s| s.min),
        "max": stats.as_ref().map(|s| s.max),
        "mean": stats.as_ref().map(|s| s.mean),
        "first": stats.as_ref().map(|s| &s.first),
        "fetched_bytes": plan.and_then(Rows::fetched_len_bytes),
        "output": output.map(|path| path.display().to_string()),
    })
}

/// The description for people.
fn summary(reader: &Reader, tensor: &Tensor, plan: Option<&Rows>) -> Result<()> {
    let mut facts = vec![
        ("name", tensor.name.clone()),
        ("dtype", tensor.dtype.to_string()),
        ("shape", table::shape(&tensor.shape)),
        ("size", size::bytes(tensor.bytes.len() as u64)),
    ];
    if let Some(rows) = plan {
        facts.push(("fetched", rows::cost(reader, rows)?));
    }
    facts.extend(Stats::of(tensor).iter().flat_map(Stats::facts));
    table::print_facts(&facts)
}
