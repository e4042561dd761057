//! `zstn info`

use std::collections::BTreeMap;
use std::fmt;
use std::iter;

use clap::Args;
use zstn::source::HttpOptions;
use zstn::{Location, Reader, Result};
use zstn_core::catalog::BaseUse;

use super::arguments::{self, Model};
use super::network::Network;
use super::{Outcome, checkpoints, each, print, size, table};

mod extensions;
mod gauss;
mod original;

use extensions::Extensions;
use original::Sha256;

#[derive(Args)]
pub struct Options {
    /// Files of any kind, .index.json of sharded checkpoints, or local folders:
    /// paths, addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    model: Model,
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

/// The checkpoints that have to be read to restore a delta.
struct Chain {
    checkpoints: usize,
    len_bytes: u64,
    /// True if no base is missing.
    is_complete: bool,
}

impl Chain {
    /// Returns the chain of a delta and the bases that were given, or `None` if no base
    /// is needed.
    fn of(reader: &Reader) -> Option<Self> {
        reader.model().needs_base().then_some(())?;
        let readers = iter::successors(Some(reader), |reader| reader.base());
        let last = readers.clone().last()?;
        Some(Self {
            checkpoints: readers.clone().count(),
            len_bytes: readers.map(|reader| reader.model().len_bytes()).sum(),
            is_complete: !last.model().needs_base(),
        })
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (self.checkpoints, size::bytes(self.len_bytes));
        match self.is_complete {
            true => write!(f, "{count} checkpoints, {bytes}, are read to restore it"),
            false => write!(
                f,
                "at least {} checkpoints; {bytes} without the base that is not given (--base)",
                count + 1
            ),
        }
    }
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

fn one(options: &Options, http: &HttpOptions, input: &Location) -> Result<()> {
    let reader = options.model.open(input, http, None)?;
    let model = reader.model();
    let mut by_dtype: BTreeMap<&str, Total> = BTreeMap::new();
    let mut all = Total::default();
    for tensor in model.tensors() {
        // Tensors with equal bytes are stored once.
        let stored = match tensor.alias_of {
            None => tensor.stored_len_bytes(),
            Some(_) => 0,
        };
        let (elements, len) = (tensor.element_count(), tensor.len_bytes());
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
        tensors.filter(|tensor| tensor.base == Some(wanted)).count()
    };
    let (copied, differing) = (from_base(BaseUse::Copy), from_base(BaseUse::Difference));
    let extensions = Extensions::of(&reader)?;
    let chain = Chain::of(&reader);
    if options.json {
        let mut json = serde_json::json!({
            "input": input.to_string(),
            "kind": model.kind().name(),
            "files": reader.sources().iter().map(|source| source.name()).collect::<Vec<_>>(),
            "original_bytes": model.original_len_bytes(),
            "packed_bytes": model.len_bytes(),
            "tensors": model.tensors().len(),
            "aliased_tensors": aliased,
            "copied_tensors": copied,
            "differing_tensors": differing,
            "chain_checkpoints": chain.as_ref().map(|chain| chain.checkpoints),
            "chain_complete": chain.as_ref().map(|chain| chain.is_complete),
            "chain_bytes": chain.as_ref().map(|chain| chain.len_bytes),
            "elements": all.elements,
            "by_dtype": by_dtype,
            "metadata": model.metadata(),
            "gauss": gauss::json(model),
        });
        extensions.add_to(&mut json);
        original::add_to(&mut json, &Sha256::of(model));
        return print(json);
    }
    let mut facts = vec![
        ("file", input.to_string()),
        ("kind", model.kind().name().into()),
        (
            "size",
            format!(
                "{} ({} bytes)",
                size::bytes(model.len_bytes()),
                model.len_bytes()
            ),
        ),
        (
            "original",
            format!(
                "{} ({} bytes), ratio {}",
                size::bytes(model.original_len_bytes()),
                model.original_len_bytes(),
                size::ratio(model.original_len_bytes(), model.len_bytes())
            ),
        ),
        ("tensors", format!("{} ({aliased} aliased)", all.tensors)),
        ("elements", all.elements.to_string()),
    ];
    if let [Some(sha256)] = &Sha256::of(model)[..] {
        facts.insert(4, ("sha256", sha256.to_string()));
    }
    if let Some(version) = extensions.needs() {
        facts.insert(2, ("version", version));
    }
    if let Some(tensors) = extensions.say() {
        facts.push(("extensions", tensors));
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
    if model.needs_base() {
        facts.push((
            "base",
            format!(
                "{copied} tensors as in the base, {differing} as deltas from it, {} without it",
                all.tensors - copied - differing
            ),
        ));
    }
    if let Some(chain) = chain {
        facts.push(("chain", chain.to_string()));
    }
    for (key, value) in model.metadata() {
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
