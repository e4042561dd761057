//! Opening the files of a model.

use zstn_core::catalog::FileCatalog;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder};

use crate::catalog::open_catalog;
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
    let mut builder = ModelBuilder::new(catalogs, index, config.as_deref()).map_err(&refuse)?;
    for (file, range) in builder.needs() {
        let bytes = sources[file].read(range.clone())?;
        builder.supply(file, range.start, &bytes);
    }
    builder.finish(engine).map_err(&refuse)
}
