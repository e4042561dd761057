//! `zstn get`

use std::path::{Path, PathBuf};

use clap::Args;
use zstn::source::Source;
use zstn::{Error, Output, Result, Tensor};
use zstn_core::dtype::Dtype;
use zstn_core::model::Rows;

use super::{place, print, rows, size, table, values};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    model: place::Model,
    /// Name of the tensor, as `zstn ls` prints it
    name: String,
    /// Only these rows, slices of the outermost dimension: the first and the
    /// one to stop before, as in 100..200, 100.. or ..200
    #[arg(long, value_name = "A..B")]
    rows: Option<rows::Bounds>,
    /// Write it to this file, whose ending says how: .npy, .safetensors, or
    /// anything else for the raw bytes; - for raw bytes on standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: place::Overwrite,
    /// Print the description as JSON
    #[arg(long)]
    pub json: bool,
}

/// Values shown.
const FIRST: usize = 8;

pub fn run(options: &Options) -> Result<()> {
    let output = options.output.as_deref();
    let output = output
        .map(|path| options.overwrite.begin(path))
        .transpose()?;
    let reader = options.model.open()?;
    if let Some(output) = &output {
        let mut inputs = Some(&reader);
        while let Some(input) = inputs {
            let sources: Vec<&dyn Source> = input.sources().iter().map(|s| &**s).collect();
            output.check_inputs(&sources)?;
            inputs = input.base();
        }
    }
    let plan = options.rows.as_ref();
    let plan = plan.map(|bounds| rows::plan(&reader, &options.name, bounds));
    let plan = plan.transpose()?;
    let tensor = match &plan {
        None => reader.read(&options.name)?,
        Some(rows) => reader.read_planned(rows)?,
    };
    if let Some((path, output)) = options.output.as_ref().zip(output) {
        write(&tensor, path, output)?;
    }
    let stats = stats(&tensor);
    if options.json {
        // Standard output may be taken by the tensor itself.
        if options.output.as_deref() == Some(Path::new("-")) {
            return Ok(());
        }
        return print(serde_json::json!({
            "name": tensor.name,
            "dtype": tensor.dtype.name(),
            "shape": tensor.shape,
            "len_bytes": tensor.bytes.len(),
            "min": stats.as_ref().map(|s| s.min),
            "max": stats.as_ref().map(|s| s.max),
            "mean": stats.as_ref().map(|s| s.mean),
            "first": stats.as_ref().map(|s| &s.first),
            "fetched_bytes": plan.as_ref().and_then(Rows::fetched_len_bytes),
            "output": options.output.as_ref().map(|path| path.display().to_string()),
        }));
    }
    if let Some(path) = &options.output {
        if path != Path::new("-") {
            eprintln!("{} → {}", tensor.name, path.display());
        }
        return Ok(());
    }
    let mut facts = vec![
        ("name", tensor.name.clone()),
        ("dtype", tensor.dtype.to_string()),
        ("shape", table::shape(&tensor.shape)),
        ("size", size::bytes(tensor.bytes.len() as u64)),
    ];
    if let Some(rows) = &plan {
        facts.push(("fetched", rows::cost(&reader, rows)?));
    }
    if let Some(stats) = stats {
        facts.extend([
            ("min", number(stats.min)),
            ("max", number(stats.max)),
            ("mean", number(stats.mean)),
        ]);
        let first: Vec<String> = stats.first.into_iter().map(number).collect();
        facts.push(("first", first.join("  ")));
    }
    print(table::facts(&facts))
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if (1e-4..1e6).contains(&size) => format!("{value:.6}"),
        _ => format!("{value:.4e}"),
    }
}

struct Stats {
    min: f64,
    max: f64,
    mean: f64,
    first: Vec<f64>,
}

/// Over the values that are numbers; `None` without any.
fn stats(tensor: &Tensor) -> Option<Stats> {
    let finite = values::numbers(tensor)?.filter(|value| !value.is_nan());
    let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
    for value in finite {
        min = min.min(value);
        max = max.max(value);
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| Stats {
        min,
        max,
        mean: sum / count,
        first: values::numbers(tensor)
            .map(|all| all.take(FIRST).collect())
            .unwrap_or_default(),
    })
}

fn write(tensor: &Tensor, path: &Path, mut output: Output) -> Result<()> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("npy") => {
            let (head, bytes) = npy(tensor)?;
            output.write(&head)?;
            output.write(bytes.as_deref().unwrap_or(&tensor.bytes))?;
        }
        Some("safetensors") => {
            output.write(&safetensors_head(tensor))?;
            output.write(&tensor.bytes)?;
        }
        _ => output.write(&tensor.bytes)?,
    }
    output.finish()
}

/// Head of a NumPy file, and the data where they are not the tensor's own.
fn npy(tensor: &Tensor) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let (name, data) = match tensor.dtype {
        Dtype::Bf16 => ("<f4", Some(values::widened(&tensor.bytes))),
        dtype => {
            let name = values::numpy_name(dtype).ok_or_else(|| {
                Error::Usage(format!(
                    "NumPy has no dtype for {dtype}; write .bin or .safetensors instead"
                ))
            })?;
            (name, None)
        }
    };
    let shape: String = tensor.shape.iter().map(|d| format!("{d}, ")).collect();
    let mut dict = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Version 2.0: six bytes of magic, two of version, four of length; the
    // data begin at a multiple of 64.
    let padding = (64 - (12 + dict.len() + 1) % 64) % 64;
    dict.extend(std::iter::repeat_n(' ', padding));
    dict.push('\n');
    let mut head = b"\x93NUMPY\x02\x00".to_vec();
    head.extend(u32::try_from(dict.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend(dict.as_bytes());
    Ok((head, data))
}

fn safetensors_head(tensor: &Tensor) -> Vec<u8> {
    let header = serde_json::json!({
        &tensor.name: {
            "dtype": tensor.dtype.name(),
            "shape": tensor.shape,
            "data_offsets": [0, tensor.bytes.len()],
        }
    });
    let mut header = header.to_string();
    header.extend(std::iter::repeat_n(' ', (8 - header.len() % 8) % 8));
    let mut head = (header.len() as u64).to_le_bytes().to_vec();
    head.extend(header.as_bytes());
    head
}
