//! What `zstn info` tells of a Gauss file: for each tensor the facts that
//! Gauss itself prints (docs/formats/gauss.md 13).

use zstn_core::container::gauss::Tensor;
use zstn_core::model::Model;

use crate::cli::{size, table};

/// The tensors of a Gauss file; none of another.
fn tensors(model: &Model) -> Vec<&Tensor> {
    let parts = model.tensors().iter().flat_map(|tensor| &tensor.parts);
    parts
        .filter_map(|part| model.files()[part.file].gauss_tensor(part.number))
        .collect()
}

/// A line per tensor; `None` for other files.
pub fn table(model: &Model) -> Option<String> {
    let tensors = tensors(model);
    if tensors.is_empty() {
        return None;
    }
    let mut rows = table::new(&[
        "tensor", ">size", ">stored", ">ratio", ">K", ">S", ">shards", "dtype",
    ]);
    for tensor in tensors {
        let (len, coded) = (tensor.len_bytes(), tensor.stored_len_bytes());
        let mut row = vec![tensor.name.clone(), size::bytes(len)];
        match tensor.shards() {
            [] => row.extend(["raw".into(), "–".into(), "–".into(), "–".into(), "–".into()]),
            shards => row.extend([
                size::bytes(coded),
                size::ratio(len, coded),
                shards[0].mixture.weights.len().to_string(),
                shards[0].scale.to_string(),
                shards.len().to_string(),
            ]),
        }
        row.push(tensor.dtype.to_string());
        rows.add_row(row);
    }
    Some(rows.trim_fmt())
}

/// The same for scripts; null for other files.
pub fn json(model: &Model) -> serde_json::Value {
    let tensors = tensors(model);
    if tensors.is_empty() {
        return serde_json::Value::Null;
    }
    let rows = tensors.into_iter().map(|tensor| {
        serde_json::json!({
            "name": tensor.name,
            "dtype": tensor.dtype.name(),
            "len_bytes": tensor.len_bytes(),
            "stored_len_bytes": tensor.stored_len_bytes(),
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
