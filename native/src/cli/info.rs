//! `zstn info`

use std::collections::BTreeMap;

use clap::Args;
use zstn::Result;
use zstn_core::catalog::BaseUse;

use super::{place, print, size, table};

#[derive(Args)]
pub struct Options {
    /// Packed, safetensors or zTensor file: a path, an http(s) address, or -
    input: String,
    /// The checkpoint that a difference was packed against: a path or an
    /// http(s) address, plain or packed
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
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
    let reader = place::reader(&options.input, options.base.as_deref())?;
    let catalog = reader.catalog();
    let mut by_dtype: BTreeMap<&str, Total> = BTreeMap::new();
    let mut all = Total::default();
    for tensor in catalog.tensors() {
        // Tied tensors are stored once.
        let stored = match tensor.shared_with {
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
    let tied = catalog
        .tensors()
        .iter()
        .filter(|t| t.shared_with.is_some())
        .count();
    let from_base = |wanted| {
        let tensors = catalog.tensors().iter();
        tensors.filter(|tensor| tensor.base == Some(wanted)).count()
    };
    let (copied, differing) = (from_base(BaseUse::Copy), from_base(BaseUse::Difference));
    if options.json {
        return print(serde_json::json!({
            "file": options.input,
            "kind": catalog.kind().name(),
            "len_bytes": catalog.len_bytes(),
            "original_len_bytes": catalog.original_len_bytes(),
            "tensors": catalog.tensors().len(),
            "tied": tied,
            "copied": copied,
            "differing": differing,
            "elements": all.elements,
            "by_dtype": by_dtype,
            "metadata": catalog.metadata(),
        }));
    }
    let mut facts = vec![
        ("file", options.input.clone()),
        ("kind", catalog.kind().name().into()),
        (
            "size",
            format!(
                "{} ({} bytes)",
                size::bytes(catalog.len_bytes()),
                catalog.len_bytes()
            ),
        ),
        (
            "original",
            format!(
                "{} ({} bytes), ratio {}",
                size::bytes(catalog.original_len_bytes()),
                catalog.original_len_bytes(),
                size::ratio(catalog.original_len_bytes(), catalog.len_bytes())
            ),
        ),
        ("tensors", format!("{} ({tied} tied)", all.tensors)),
        ("elements", all.elements.to_string()),
    ];
    if catalog.needs_base() {
        facts.push((
            "base",
            format!("{copied} tensors as in the base, {differing} as differences from it"),
        ));
    }
    for (key, value) in catalog.metadata() {
        facts.push(("metadata", format!("{key} = {value}")));
    }
    print(table::facts(&facts))?;
    if by_dtype.is_empty() {
        return Ok(());
    }
    let mut rows = table::new(&[
        "dtype",
        ">tensors",
        ">elements",
        ">size",
        ">stored",
        ">ratio",
    ]);
    for (dtype, total) in by_dtype {
        rows.add_row([
            dtype.to_owned(),
            total.tensors.to_string(),
            total.elements.to_string(),
            size::bytes(total.len_bytes),
            size::bytes(total.stored_len_bytes),
            size::ratio(total.len_bytes, total.stored_len_bytes),
        ]);
    }
    print(format!("\n{}", rows.trim_fmt()))
}
