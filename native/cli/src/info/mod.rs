//! `zstn info`: describes a file.

use std::collections::BTreeMap;
use std::{fmt, slice};

use clap::Args;
use serde_json::{Map, Value, json};
use zstn::source::HttpOptions;
use zstn::{Location, Reader, Result};
use zstn_core::catalog::{BaseUse, Extension, FileCatalog};
use zstn_core::frame::Edition;
use zstn_gpu::load::coverage;

use super::arguments;
use super::network::Network;
use super::{Outcome, bench, checkpoints, each, pack, print, size, table};

mod chain;
mod gauss;
mod training;

use chain::Chain;

#[derive(Args)]
pub struct Options {
    /// Files of any kind, .index.json of sharded checkpoints, or local folders:
    /// paths, addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    model: arguments::Model,
    /// Read all packed tensors to state how many a GPU can decode (docs/gpu.md)
    #[arg(long)]
    gpu: bool,
    /// Print the description as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    network: Network,
}

#[derive(Default, Clone, Copy, serde::Serialize)]
struct Total {
    tensors: usize,
    elements: u64,
    original_bytes: u64,
    packed_bytes: u64,
}

impl Total {
    fn add(&mut self, elements: u64, original_bytes: u64, packed_bytes: u64) {
        self.tensors += 1;
        self.elements += elements;
        self.original_bytes += original_bytes;
        self.packed_bytes += packed_bytes;
    }
}

/// Returns the reader of the files that are stored: of the packed file, if `reader` was
/// opened inside it.
fn stored(reader: &Reader) -> &Reader {
    reader.packed().unwrap_or(reader)
}

pub fn run(options: &Options) -> Outcome {
    let http = options.network.options(&options.inputs)?;
    let mut is_first = true;
    let inputs = checkpoints(&options.inputs);
    each(inputs.iter(), options.json, |input| {
        if !is_first && !options.json {
            print("")?;
        }
        is_first = false;
        one(options, &http, input)
    })
}

/// Opens `input`. If it is a delta in a packed checkpoint of a training run, the
/// description of the checkpoint names its bases.
fn open(options: &Options, http: &HttpOptions, input: &Location) -> Result<Reader> {
    let reader = options.model.open(input, http, None)?;
    if !stored(&reader).model().needs_base() || options.model.has_bases() {
        return Ok(reader);
    }
    match training::bases(input) {
        bases if bases.is_empty() => Ok(reader),
        bases => options.model.open_with(input, &bases, http),
    }
}

fn one(options: &Options, http: &HttpOptions, input: &Location) -> Result<()> {
    let reader = open(options, http, input)?;
    let model = reader.model();
    let mut by_dtype: BTreeMap<&str, Total> = BTreeMap::new();
    let mut all = Total::default();
    for tensor in model.tensors() {
        // Tensors with equal bytes are stored once.
        let stored = match tensor.alias_of {
            None => tensor.stored_share_bytes(),
            Some(_) => 0,
        };
        let (elements, len) = (tensor.element_count(), tensor.original_len_bytes());
        by_dtype
            .entry(tensor.dtype.name())
            .or_default()
            .add(elements, len, stored);
        all.add(elements, len, stored);
    }
    let aliased = model
        .tensors()
        .iter()
        .filter(|t| t.alias_of.is_some())
        .count();
    let from_base = |wanted| {
        let tensors = model.tensors().iter();
        let of_wanted = tensors.filter(|tensor| tensor.base_use() == Some(wanted));
        of_wanted.count()
    };
    let (copied, differing) = (from_base(BaseUse::Copy), from_base(BaseUse::Delta));
    let extensions = Extensions::of(stored(&reader))?;
    let chain = Chain::of(stored(&reader));
    let metadata = reader.original_metadata()?;
    let packed = reader.packed_file();
    let files = packed.map_or(model.files(), slice::from_ref);
    let kind = packed.map_or(model.kind(), FileCatalog::kind).name();
    let packed_bytes = packed.map_or(model.len_bytes(), FileCatalog::len_bytes);
    let original_bytes = size::original_bytes(model, packed);
    let original_kind = match files {
        [file] => file.original_kind(),
        _ => None,
    };
    let by_gpu = match options.gpu {
        true => Some(coverage(&reader).map_err(bench::of_file)?),
        false => None,
    };
    if options.json {
        let mut json = serde_json::json!({
            "input": input.to_string(),
            "kind": kind,
            "files": reader.sources().iter().map(|source| source.name()).collect::<Vec<_>>(),
            "original_bytes": original_bytes,
            "packed_bytes": packed_bytes,
            "tensors": model.tensors().len(),
            "aliased_tensors": aliased,
            "copied_tensors": copied,
            "differing_tensors": differing,
            "elements": all.elements,
            "by_dtype": by_dtype,
            "metadata": metadata,
            "original_kind": original_kind,
            "gauss": gauss::json(model),
        });
        if let Some(by_gpu) = by_gpu {
            json["gpu_tensors"] = by_gpu.tensors.into();
            json["gpu_bytes"] = by_gpu.len_bytes.into();
        }
        Chain::add_to(chain.as_ref(), &mut json);
        extensions.add_to(&mut json);
        add_originals(&mut json, &Sha256::of(files));
        return print(json);
    }
    let mut facts = vec![
        ("file", input.to_string()),
        ("kind", kind.into()),
        (
            "size",
            format!("{} ({packed_bytes} bytes)", size::bytes(packed_bytes)),
        ),
        (
            "original",
            format!(
                "{} ({original_bytes} bytes), ratio {}",
                size::bytes(original_bytes),
                size::ratio(original_bytes, packed_bytes)
            ),
        ),
        ("tensors", format!("{} ({aliased} aliased)", all.tensors)),
        ("elements", all.elements.to_string()),
    ];
    if let [Some(sha256)] = &Sha256::of(files)[..] {
        facts.insert(4, ("sha256", sha256.to_string()));
    }
    if let Some(version) = extensions.needs() {
        facts.insert(2, ("version", version));
    }
    if let Some(tensors) = extensions.say() {
        facts.push(("extensions", tensors));
    }
    if let Some(by_gpu) = by_gpu {
        let (bytes, all_bytes) = (by_gpu.len_bytes, all.original_bytes);
        let (bytes, all_bytes) = (size::bytes(bytes), size::bytes(all_bytes));
        let tensors = format!(
            "{} of {}",
            by_gpu.tensors,
            pack::count(all.tensors, "tensor")
        );
        facts.push(("by a GPU", format!("{tensors}, {bytes} of {all_bytes}")));
    }
    if model.files().len() > 1 {
        facts.insert(1, ("files", model.files().len().to_string()));
    }
    if model.is_rotated() {
        facts.push((
            "rotated",
            "weights were rotated before they were quantised, and are read so".into(),
        ));
    }
    if chain.is_some() {
        facts.push((
            "base",
            format!(
                "{} as in the base, {differing} as deltas from it, {} without it",
                pack::count(copied, "tensor"),
                all.tensors - copied - differing
            ),
        ));
    }
    if let Some(chain) = chain {
        facts.push(("chain", chain.to_string()));
        facts.extend(chain.reads().map(|file| ("reads", file)));
    }
    if let Some(kind) = original_kind {
        facts.push(("packed from", kind.into()));
    }
    for (key, value) in &metadata {
        facts.push(("metadata", format!("{key} = {value}")));
    }
    table::print_facts(&facts)?;
    if by_dtype.is_empty() {
        return Ok(());
    }
    print("")?;
    let headings = [
        "dtype",
        ">tensors",
        ">elements",
        ">size",
        ">stored",
        ">ratio",
    ];
    table::print(headings, || {
        by_dtype.iter().map(|(dtype, total)| {
            [
                (*dtype).into(),
                total.tensors.to_string().into(),
                total.elements.to_string().into(),
                size::bytes(total.original_bytes).into(),
                size::bytes(total.packed_bytes).into(),
                size::ratio(total.original_bytes, total.packed_bytes).into(),
            ]
        })
    })?;
    gauss::print_table(model)
}

/// The SHA-256 of an original file.
struct Sha256 {
    hex: String,
    /// True if the packer was given the digest and did not check it.
    is_claimed: bool,
}

impl Sha256 {
    /// Returns the digests of `files`; `None` for a file without one.
    fn of(files: &[FileCatalog]) -> Vec<Option<Self>> {
        files.iter().map(Self::of_file).collect()
    }

    fn of_file(file: &FileCatalog) -> Option<Self> {
        let integrity = file.integrity()?;
        let (bytes, is_claimed) = match integrity.original_sha256() {
            Some(bytes) => (bytes, false),
            None => (integrity.claimed_sha256()?, true),
        };
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { hex, is_claimed })
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hex, is_claimed } = self;
        match is_claimed {
            true => write!(
                f,
                "{hex} (claimed when it was packed; unpack and verify compare it)"
            ),
            false => write!(f, "{hex} (of the original)"),
        }
    }
}

/// Adds `originals` to the description.
fn add_originals(json: &mut Value, all: &[Option<Sha256>]) {
    let objects = all.iter().map(|sha256| match sha256 {
        None => Value::Null,
        Some(Sha256 { hex, is_claimed }) => json!({"sha256": hex, "claimed": is_claimed}),
    });
    json["originals"] = objects.collect();
}

/// The versions of a model's packed files, and the number of tensors in extension
/// frames.
struct Extensions {
    /// The latest version and its edition; `None` for files of other formats.
    version: Option<(u8, Edition)>,
    /// Number of tensors per type of extension frame.
    tensors: BTreeMap<Extension, usize>,
}

impl Extensions {
    /// Reads the first bytes of the frames that may be extension frames.
    fn of(reader: &Reader) -> Result<Self> {
        let mut version = None;
        let mut tensors = BTreeMap::new();
        for (file, source) in reader.model().files().iter().zip(reader.sources()) {
            version = version.max(file.version().zip(file.edition()));
            let numbers = 0..file.tensors().len();
            let heads: Vec<_> = numbers.filter_map(|n| file.frame_head(n)).collect();
            for head in source.read_ranges(&heads)? {
                if let Some(extension) = Extension::of_frame(&head) {
                    *tensors.entry(extension).or_default() += 1;
                }
            }
        }
        Ok(Self { version, tensors })
    }

    /// Returns the version and the readers that it requires, in words.
    fn needs(&self) -> Option<String> {
        let (version, edition) = self.version?;
        Some(match edition {
            Edition::Plain => format!("{version}"),
            Edition::Extended | Edition::Paired => {
                format!("{version}: needs zstn 0.1 or later; z4ai cannot read it")
            }
        })
    }

    /// Returns the number of tensors per type of extension frame, in words, or `None`
    /// if there are none and the version does not announce any.
    fn say(&self) -> Option<String> {
        let (_, edition) = self.version?;
        let counts = self.tensors.iter().map(|(extension, count)| {
            let noun = if *count == 1 { "tensor" } else { "tensors" };
            format!("{count} {noun} by {}", extension.name())
        });
        match (counts.collect::<Vec<_>>(), edition) {
            (counts, _) if !counts.is_empty() => Some(counts.join(", ")),
            (_, Edition::Extended) => Some("no tensor".into()),
            (_, Edition::Plain | Edition::Paired) => None,
        }
    }

    /// Adds `version`, `min_reader` and `extensions` to the description. They are
    /// `null` for files of other formats.
    fn add_to(&self, json: &mut Value) {
        json["version"] = self.version.map(|(version, _)| version).into();
        json["min_reader"] = match self.version {
            None => Value::Null,
            Some((_, Edition::Plain)) => "zstn 0.1, z4ai 0.2".into(),
            Some((_, Edition::Extended | Edition::Paired)) => "zstn 0.1".into(),
        };
        let counts = Extension::ALL.map(|extension| {
            let count = self.tensors.get(&extension).copied().unwrap_or_default();
            (extension.name().to_owned(), count.into())
        });
        json["extensions"] = match self.version {
            None => Value::Null,
            Some(_) => Map::from_iter(counts).into(),
        };
    }
}
