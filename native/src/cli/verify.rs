//! `zstn verify`

use clap::Args;
use zstn::shards::{READABLE, Shards};
use zstn::source::{Map, Place};
use zstn::{Engine, Reader, Result, VerifyReport, is_packed};
use zstn_core::catalog::Kind;

use super::{place, print, progress, say, shards, size};

#[derive(Args)]
pub struct Options {
    /// A file of any kind but plain safetensors, the .index.json of a sharded
    /// checkpoint, or a local folder: a path, an http(s) address, or - for
    /// standard input
    #[arg(value_parser = place::parser())]
    pub input: Place,
    /// Compare every byte with this one
    #[arg(long, value_name = "ORIGINAL", value_parser = place::parser())]
    pub against: Option<Place>,
    #[command(flatten)]
    pub bases: place::Bases,
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
    let engine = Engine::new(options.threads)?;
    let report = match Input::open(&options.input, &engine, silent)? {
        Input::Packed(input) => packed(options, &engine, &input, silent),
        Input::Model(input) => model(options, *input, silent),
    }?;
    if options.json {
        return print(serde_json::json!({
            "file": options.input.to_string(),
            "frames": report.frames,
            "has_digests": report.has_digests,
            "packed_bytes": report.packed_bytes,
            "original_bytes": report.original_bytes,
            "compared": report.compared,
            "max_error": report.max_error,
            "ok": true,
        }));
    }
    if !options.quiet {
        say!(
            "{}: {} {} decode to {}, {}",
            options.input,
            report.frames,
            match report.kind {
                Kind::Delta => "records",
                Kind::Zstn => "frames",
                _ => "tensors",
            },
            size::bytes(report.original_bytes),
            match (&options.against, report.max_error) {
                (Some(original), None) => format!("identical to {original}"),
                (Some(original), Some(error)) => {
                    format!("within {error:.3e} of {original}, as promised")
                }
                (None, _) if report.has_digests => "every byte as its digests say".into(),
                (None, _) if report.kind == Kind::Zstn => {
                    "as long as the index says (the file holds no digests)".into()
                }
                (None, _) => "as the file says".into(),
            }
        );
    }
    Ok(())
}

/// What there is to verify.
enum Input {
    /// A file that restores another byte for byte.
    Packed(Map),
    /// Tensors in files of other kinds, or in several.
    Model(Box<Reader>),
}

impl Input {
    fn open(place: &Place, engine: &Engine, silent: bool) -> Result<Self> {
        let options = Reader::options().engine(engine);
        let model = |reader| Self::Model(Box::new(reader));
        if Shards::open(place, &READABLE)?.is_some() {
            return options.open(place).map(model);
        }
        if matches!(place, Place::Url(_)) {
            // Only a packed file is fetched whole.
            return match is_packed(&*place.open()?)? {
                true => place::whole(place, silent).map(Self::Packed),
                false => options.open(place).map(model),
            };
        }
        let map = place::whole(place, silent)?;
        match (is_packed(&map)?, place) {
            (true, _) => Ok(Self::Packed(map)),
            (false, Place::Stdin) => options.open_source(Box::new(map)).map(model),
            (false, _) => options.open(place).map(model),
        }
    }
}

fn packed(options: &Options, engine: &Engine, input: &Map, silent: bool) -> Result<VerifyReport> {
    let whole = |place: &Place| place::whole(place, silent);
    let original = options.against.as_ref().map(whole).transpose()?;
    let base = options.bases.open_for(input, engine, silent)?;
    let bar = progress::watch("verifying", silent);
    match &base {
        Some(base) => zstn::verify_delta(engine, input, base, original.as_ref(), &bar),
        None => zstn::verify(engine, input, original.as_ref(), &bar),
    }
}

fn model(options: &Options, input: Reader, silent: bool) -> Result<VerifyReport> {
    let reading = Reader::options().engine(input.engine());
    let original = options.against.as_ref();
    let original = original
        .map(|original| reading.open(original))
        .transpose()?;
    let input = options.bases.add_to(input)?;
    let bar = progress::watch("verifying", silent);
    zstn::verify_tensors(&input, original.as_ref(), &bar)
}
