//! `zstn ls`

use clap::Args;
use zstn::Result;
use zstn_core::catalog::{BaseUse, Catalog, Tensor};

use super::{place, print, size, table};

#[derive(Args)]
pub struct Options {
    /// Packed, safetensors or zTensor file: a path, an http(s) address, or -
    input: String,
    /// The checkpoint that a difference was packed against: a path or an
    /// http(s) address, plain or packed
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let reader = place::reader(&options.input, options.base.as_deref())?;
    let catalog = reader.catalog();
    if options.json {
        let tensors: Vec<_> = catalog.tensors().iter().map(|t| json(catalog, t)).collect();
        return print(serde_json::json!({
            "file": options.input,
            "kind": catalog.kind().name(),
            "tensors": tensors,
        }));
    }
    let mut rows = table::new(&["name", "dtype", "shape", ">size", ">stored", ">ratio", ""]);
    for tensor in catalog.tensors() {
        let shared = tensor.shared_with.map(|owner| &catalog.tensors()[owner]);
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
            match (shared, tensor.base) {
                (Some(owner), _) => format!("= {}", owner.name),
                (None, Some(BaseUse::Copy)) => "= base".into(),
                (None, Some(BaseUse::Difference)) => "from base".into(),
                (None, None) => String::new(),
            },
        ]);
    }
    if !catalog.tensors().is_empty() {
        print(rows.trim_fmt())?;
    }
    eprintln!(
        "{} tensors, {} in {} ({})",
        catalog.tensors().len(),
        size::bytes(catalog.original_len_bytes()),
        size::bytes(catalog.len_bytes()),
        size::ratio(catalog.original_len_bytes(), catalog.len_bytes()),
    );
    Ok(())
}

/// One tensor for scripts.
pub fn json(catalog: &Catalog, tensor: &Tensor) -> serde_json::Value {
    serde_json::json!({
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape,
        "len_bytes": tensor.len_bytes(),
        "stored_offset": tensor.stored.start,
        "stored_len_bytes": tensor.stored_len_bytes(),
        "base": tensor.base.map(BaseUse::name),
        "shared_with": tensor.shared_with.map(|owner| &catalog.tensors()[owner].name),
    })
}
