//! Builds a model from its opened files.

use zstn_core::catalog::FileCatalog;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder, Verify};

use crate::source::{Source, Wanted, read_wanted};
use crate::{Engine, Error, Result};

/// Returns the model whose files are `sources` with these `catalogs` and an optional
/// shard index. `name` is the model's name in error messages, and `config` looks for
/// its `config.json`.
pub fn open_model(
    engine: &Engine,
    name: &str,
    sources: &[Box<dyn Source>],
    catalogs: Vec<FileCatalog>,
    index: Option<&ShardIndex>,
    verify: Verify,
    config: impl FnOnce(&[FileCatalog]) -> Result<Option<Vec<u8>>>,
) -> Result<Model> {
    let refuse = Error::place(name);
    let config = config(&catalogs)?;
    let are_covered: Vec<bool> = catalogs.iter().map(FileCatalog::is_covered).collect();
    let mut builder = ModelBuilder::new(catalogs, index, config.as_deref()).map_err(&refuse)?;
    let needs = builder.needs();
    let wanted = needs.iter().map(|(file, range)| Wanted {
        source: &*sources[*file],
        range: range.clone(),
        is_compared: are_covered[*file],
    });
    let parts = read_wanted(&wanted.collect::<Vec<_>>())?;
    for ((file, range), bytes) in needs.iter().zip(parts) {
        builder.supply(*file, range.start, &bytes);
    }
    let model = builder.verify(verify).finish(engine).map_err(&refuse)?;
    // A weight may be unreadable because the bytes of one of its small tensors came
    // from another version.
    match sources.iter().find_map(|source| source.other_version()) {
        Some(change) if !needs.is_empty() && model.refused().next().is_some() => Err(change),
        _ => Ok(model),
    }
}
