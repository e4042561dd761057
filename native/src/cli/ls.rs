//! `zstn ls`

use clap::Args;
use zstn::Result;
use zstn_core::catalog::BaseUse;
use zstn_core::model::{Model, Tensor};

use super::{place, print, size, table};

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
        let tensors: Vec<_> = model.tensors().iter().map(|t| json(model, t)).collect();
        return print(serde_json::json!({
            "file": options.model.input.to_string(),
            "kind": model.kind().name(),
            "files": reader.sources().iter().map(|source| source.name()).collect::<Vec<_>>(),
            "tensors": tensors,
            "refused": model.refused().map(|(name, refusal)| serde_json::json!({
                "name": name,
                "message": refusal.to_string(),
            })).collect::<Vec<_>>(),
        }));
    }
    let mut rows = table::new(&["name", "dtype", "shape", ">size", ">stored", ">ratio", ""]);
    for tensor in model.tensors() {
        let shared = tensor.shared_with.map(|owner| &model.tensors()[owner]);
        rows.add_row([
            tensor.name.clone(),
            tensor.dtype.to_string(),
            table::shape(&tensor.shape),
            size::bytes(tensor.len_bytes()),
            shared.map_or_else(|| size::bytes(tensor.stored_len_bytes()), |_| "–".into()),
            shared.map_or_else(
                || size::ratio(tensor.len_bytes(), tensor.stored_len_bytes()),
                |_| "–".into(),
            ),
            match (shared, tensor.base, tensor.format()) {
                (Some(owner), ..) => format!("= {}", owner.name),
                (None, Some(BaseUse::Copy), _) => "= base".into(),
                (None, Some(BaseUse::Difference), _) => "from base".into(),
                (None, None, Some(format)) => format.into(),
                (None, None, None) => String::new(),
            },
        ]);
    }
    if !model.tensors().is_empty() {
        print(rows.trim_fmt())?;
    }
    for (name, refusal) in model.refused() {
        eprintln!("warning: {name} cannot be read: {refusal}");
    }
    eprintln!(
        "{} tensors, {} in {} ({})",
        model.tensors().len(),
        size::bytes(model.original_len_bytes()),
        size::bytes(model.len_bytes()),
        size::ratio(model.original_len_bytes(), model.len_bytes()),
    );
    Ok(())
}

/// One tensor for scripts.
fn json(model: &Model, tensor: &Tensor) -> serde_json::Value {
    serde_json::json!({
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape,
        "len_bytes": tensor.len_bytes(),
        "stored_len_bytes": tensor.stored_len_bytes(),
        "parts": tensor.parts.iter().map(|part| serde_json::json!({
            "file": part.file,
            "offset": part.stored.start,
            "len_bytes": part.stored.end - part.stored.start,
        })).collect::<Vec<_>>(),
        "format": tensor.format(),
        "base": tensor.base.map(BaseUse::name),
        "shared_with": tensor.shared_with.map(|owner| &model.tensors()[owner].name),
    })
}
