//! `zstn ls`

use std::borrow::Cow;

use clap::Args;
use serde::{Serialize, Serializer};
use zstn::Result;
use zstn_core::catalog::BaseUse;
use zstn_core::model::{Model, Tensor};

use super::stdout::Stdout;
use super::{place, say, size, table};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    model: place::Model,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let reader = options.model.open()?;
    let model = reader.model();
    if options.json {
        let mut out = Stdout::new();
        out.json(&List {
            file: &options.model.input.to_string(),
            files: reader.sources().iter().map(|s| s.name()).collect(),
            kind: model.kind().name(),
            refused: Refused(model),
            tensors: Tensors(model),
        })?;
        return out.finish();
    }
    if !model.tensors().is_empty() {
        let headings = ["name", "dtype", "shape", ">size", ">stored", ">ratio", ""];
        table::print(headings, || model.tensors().iter().map(|t| row(model, t)))?;
    }
    for (name, refusal) in model.refused() {
        say!("warning: {name} cannot be read: {refusal}");
    }
    say!(
        "{} tensors, {} in {} ({})",
        model.tensors().len(),
        size::bytes(model.original_len_bytes()),
        size::bytes(model.len_bytes()),
        size::ratio(model.original_len_bytes(), model.len_bytes()),
    );
    Ok(())
}

/// One tensor for people.
fn row<'a>(model: &'a Model, tensor: &'a Tensor) -> [Cow<'a, str>; 7] {
    let shared = tensor.alias_of.map(|owner| &model.tensors()[owner]);
    let (stored, ratio) = match shared {
        Some(_) => ("–".into(), "–".into()),
        None => (
            size::bytes(tensor.stored_len_bytes()),
            size::ratio(tensor.len_bytes(), tensor.stored_len_bytes()),
        ),
    };
    [
        tensor.name.as_str().into(),
        tensor.dtype.to_string().into(),
        table::shape(&tensor.shape).into(),
        size::bytes(tensor.len_bytes()).into(),
        stored.into(),
        ratio.into(),
        match (shared, tensor.base, tensor.format()) {
            (Some(owner), ..) => format!("= {}", table::shortened(&owner.name)).into(),
            (None, Some(BaseUse::Copy), _) => "= base".into(),
            (None, Some(BaseUse::Difference), _) => "from base".into(),
            (None, None, Some(format)) => format.into(),
            (None, None, None) => "".into(),
        },
    ]
}

/// The list for scripts. A list of millions of tensors is written entry by
/// entry.
#[derive(Serialize)]
struct List<'a> {
    file: &'a str,
    files: Vec<&'a str>,
    kind: &'a str,
    refused: Refused<'a>,
    tensors: Tensors<'a>,
}

struct Refused<'a>(&'a Model);

impl Serialize for Refused<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.refused().map(|(name, refusal)| {
            serde_json::json!({
                "name": name,
                "message": refusal.to_string(),
            })
        }))
    }
}

struct Tensors<'a>(&'a Model);

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tensors = self.0.tensors().iter();
        serializer.collect_seq(tensors.map(|tensor| Entry::new(self.0, tensor)))
    }
}

/// One tensor for scripts.
#[derive(Serialize)]
struct Entry<'a> {
    base: Option<&'a str>,
    dtype: &'a str,
    format: Option<&'a str>,
    len_bytes: u64,
    name: &'a str,
    parts: Vec<Stored>,
    shape: &'a [u64],
    shared_with: Option<&'a str>,
    stored_len_bytes: u64,
}

#[derive(Serialize)]
struct Stored {
    file: usize,
    len_bytes: u64,
    offset: u64,
}

impl<'a> Entry<'a> {
    fn new(model: &'a Model, tensor: &'a Tensor) -> Self {
        let parts = tensor.parts.iter().map(|part| Stored {
            file: part.file,
            len_bytes: part.stored.end - part.stored.start,
            offset: part.stored.start,
        });
        let shared = tensor.alias_of.map(|owner| &model.tensors()[owner]);
        Self {
            base: tensor.base.map(BaseUse::name),
            dtype: tensor.dtype.name(),
            format: tensor.format(),
            len_bytes: tensor.len_bytes(),
            name: &tensor.name,
            parts: parts.collect(),
            shape: &tensor.shape,
            shared_with: shared.map(|owner| owner.name.as_str()),
            stored_len_bytes: tensor.stored_len_bytes(),
        }
    }
}
