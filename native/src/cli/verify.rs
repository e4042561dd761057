//! `zstn verify`

use clap::Args;
use zstn::{Native, Result};
use zstn_core::catalog::Kind;

use super::{place, print, progress, shards, size};

#[derive(Args)]
pub struct Options {
    /// Packed or zTensor file, or the .index.json of packed shards: a path, an
    /// http(s) address, or - for standard input; or a local folder
    pub input: String,
    /// Compare every byte with this one
    #[arg(long, value_name = "ORIGINAL")]
    pub against: Option<String>,
    /// What a difference was packed against
    #[arg(long, value_name = "BASE")]
    pub base: Option<String>,
    /// Threads, 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    if let Some(input) = shards::packed(&options.input)? {
        return shards::verify(options, &input);
    }
    let silent = options.quiet || options.json;
    let engine = Native::new(options.threads)?;
    let input = place::whole(&options.input, silent)?;
    let original = options
        .against
        .as_ref()
        .map(|original| place::whole(original, silent))
        .transpose()?;
    let base = options
        .base
        .as_ref()
        .map(|base| place::whole(base, silent))
        .transpose()?;
    let bar = progress::watch("verifying", silent);
    let report = match &base {
        Some(base) => zstn::verify_delta(&engine, &input, base, original.as_ref(), &bar),
        None => zstn::verify(&engine, &input, original.as_ref(), &bar),
    };
    drop(bar);
    let report = report?;
    if options.json {
        return print(serde_json::json!({
            "file": options.input,
            "frames": report.frames,
            "packed_bytes": report.packed_bytes,
            "original_bytes": report.original_bytes,
            "compared": report.compared,
            "ok": true,
        }));
    }
    if !options.quiet {
        eprintln!(
            "{}: {} {} decode to {}, {}",
            options.input,
            report.frames,
            match report.kind {
                Kind::Delta => "records",
                Kind::ZTensor => "tensors",
                _ => "frames",
            },
            size::bytes(report.original_bytes),
            match &options.against {
                Some(original) => format!("identical to {original}"),
                None if report.kind == Kind::Zstn => "as the index says".into(),
                None => "as the file says".into(),
            }
        );
    }
    Ok(())
}
