//! `zstn info`

use std::collections::BTreeMap;

use clap::Args;
use zstn::Result;
use zstn_core::catalog::BaseUse;

use super::{place, print, size, table};

mod gauss;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    model: place::Model,
    /// Print the description as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Default, Clone, Copy, serde::Serialize)]
struct Total {
    tensors: usize,
    elements: u64,
    len_bytes: u64,
    stored_len_bytes: u64,
}

impl Total {
    fn add(&mut self, elements: u64, len_bytes: u64, stored_len_bytes: u64) {
        self.tensors += 1;
        self.elements += elements;
        self.len_bytes += len_bytes;
        self.stored_len_bytes += stored_len_bytes;
    }
}

pub fn run(options: &Options) -> Result<()> {
    let reader = options.model.open()?;
    let model = reader.model();
    let mut by_dtype: BTreeMap<&str, Total> = BTreeMap::new();
    let mut all = Total::default();
    for tensor in model.tensors() {
        // Tied tensors are stored once.
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
    let tied = model
        .tensors()
        .iter()
        .filter(|t| t.alias_of.is_some())
        .count();
    let from_base = |wanted| {
        let tensors = model.tensors().iter();
        tensors.filter(|tensor| tensor.base == Some(wanted)).count()
    };
    let (copied, differing) = (from_base(BaseUse::Copy), from_base(BaseUse::Difference));
    if options.json {
        return print(serde_json::json!({
            "file": options.model.input.to_string(),
            "kind": model.kind().name(),
            "files": reader.sources().iter().map(|source| source.name()).collect::<Vec<_>>(),
            "len_bytes": model.len_bytes(),
            "original_len_bytes": model.original_len_bytes(),
            "tensors": model.tensors().len(),
            "tied": tied,
            "copied": copied,
            "differing": differing,
            "elements": all.elements,
            "by_dtype": by_dtype,
            "metadata": model.metadata(),
            "gauss": gauss::json(model),
        }));
    }
    let mut facts = vec![
        ("file", options.model.input.to_string()),
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
        ("tensors", format!("{} ({tied} tied)", all.tensors)),
        ("elements", all.elements.to_string()),
    ];
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
                "{copied} tensors as in the base, {differing} as differences from it, {} without it",
                all.tensors - copied - differing
            ),
        ));
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
                size::bytes(total.len_bytes).into(),
                size::bytes(total.stored_len_bytes).into(),
                size::ratio(total.len_bytes, total.stored_len_bytes).into(),
            ]
        })
    })?;
    gauss::print_table(model)
}
