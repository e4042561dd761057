//! The Gauss section of `zstn info`, which shows for each tensor the values that Gauss
//! itself prints (docs/formats/gauss.md 13).

use std::borrow::Cow;

use zstn::Result;
use zstn_core::container::foreign::gauss::IndexedTensor;
use zstn_core::model::Model;

use crate::{print, size, table};

/// Returns the tensors of a Gauss file; empty for other files.
fn tensors(model: &Model) -> Vec<&IndexedTensor> {
    let parts = model.tensors().iter().flat_map(|tensor| &tensor.parts);
    parts
        .filter_map(|part| model.files()[part.file].gauss_tensor(part.number))
        .collect()
}

/// Prints an empty line and a line per tensor. Prints nothing for files of other
/// formats.
pub fn print_table(model: &Model) -> Result<()> {
    let tensors = tensors(model);
    if tensors.is_empty() {
        return Ok(());
    }
    print("")?;
    let headings = [
        "tensor", ">size", ">stored", ">ratio", ">K", ">S", ">shards", "dtype",
    ];
    table::print(headings, || tensors.iter().map(|tensor| row(tensor)))
}

fn row(tensor: &IndexedTensor) -> [Cow<'_, str>; 8] {
    let (len, coded) = (tensor.len_bytes(), tensor.stored_len_bytes());
    let none = || Cow::from("–");
    let [stored, ratio, components, scale, shards] = match tensor.shards() {
        [] => ["raw".into(), none(), none(), none(), none()],
        shards => [
            size::bytes(coded).into(),
            size::ratio(len, coded).into(),
            shards[0].mixture.weights.len().to_string().into(),
            shards[0].scale.to_string().into(),
            shards.len().to_string().into(),
        ],
    };
    [
        tensor.name.as_str().into(),
        size::bytes(len).into(),
        stored,
        ratio,
        components,
        scale,
        shards,
        tensor.dtype.to_string().into(),
    ]
}

/// Returns the table as JSON, or null for files of other formats.
pub fn json(model: &Model) -> serde_json::Value {
    let tensors = tensors(model);
    if tensors.is_empty() {
        return serde_json::Value::Null;
    }
    let rows = tensors.into_iter().map(|tensor| {
        serde_json::json!({
            "name": tensor.name,
            "dtype": tensor.dtype.name(),
            "original_bytes": tensor.len_bytes(),
            "packed_bytes": tensor.stored_len_bytes(),
            "raw": tensor.shards().is_empty(),
            "shards": tensor.shards().iter().map(|shard| serde_json::json!({
                "components": shard.mixture.weights.len(),
                "scale": shard.scale,
                "elements": shard.element_count(),
            })).collect::<Vec<_>>(),
        })
    });
    rows.collect()
}
