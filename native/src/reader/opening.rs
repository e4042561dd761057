//! What is read of the files of a model before its tensors.

use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder};

use crate::source::Source;
use crate::{Engine, Error, Result};

/// Returns the model called `name` in messages, whose files are `sources` and
/// may have an index. `config` looks for its `config.json`.
pub fn open_model(
    engine: &Engine,
    name: &str,
    sources: &[Box<dyn Source>],
    index: Option<&ShardIndex>,
    config: impl FnOnce(&[FileCatalog]) -> Result<Option<Vec<u8>>>,
) -> Result<Model> {
    let refuse = Error::place(name);
    let catalogs = sources.iter().map(|source| open_catalog(engine, &**source));
    let catalogs = catalogs.collect::<Result<Vec<_>>>()?;
    let config = config(&catalogs)?;
    let mut assembly = ModelBuilder::new(catalogs, index, config.as_deref()).map_err(&refuse)?;
    for (file, range) in assembly.needs() {
        let bytes = sources[file].read(range.clone())?;
        assembly.supply(file, range.start, &bytes);
    }
    assembly.finish(engine).map_err(&refuse)
}

/// The catalog of a file, by way of the reads it needs.
pub(crate) fn open_catalog(engine: &Engine, source: &dyn Source) -> Result<FileCatalog> {
    let refuse = Error::place(source.name());
    let len = source.len_bytes();
    let head = source
        .read(0..FileOpener::head_len_bytes(len))?
        .into_owned();
    let mut opening = FileOpener::new(len, head).map_err(&refuse)?;
    loop {
        let needs = opening.needs().map_err(&refuse)?;
        if needs.is_empty() {
            return opening.finish(engine).map_err(&refuse);
        }
        for range in needs {
            let bytes = source.read(range.clone())?;
            opening.supply(range.start, &bytes).map_err(&refuse)?;
        }
    }
}
