//! Builds a model from its opened files.

use std::borrow::Cow;

use zstn_core::catalog::FileCatalog;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder, Verify};

use super::state_machine::{Need, Work};
use crate::{Engine, Error, Result};

/// The work of building a model from the catalogs of its files. It also reads the small
/// tensors that state the shapes of weights that are stored in several parts.
pub(super) struct OpenModel {
    name: String,
    builder: ModelBuilder,
    are_covered: Vec<bool>,
    verify: Verify,
    is_fetched: bool,
    has_needs: bool,
}

impl OpenModel {
    /// Returns the work for the model called `name`, with an optional shard index and
    /// its `config.json`, if one was found.
    pub(super) fn new(
        name: &str,
        catalogs: Vec<FileCatalog>,
        index: Option<&ShardIndex>,
        config: Option<&[u8]>,
        verify: Verify,
    ) -> Result<Self> {
        let are_covered = catalogs.iter().map(FileCatalog::is_covered).collect();
        let builder = ModelBuilder::new(catalogs, index, config);
        Ok(Self {
            name: name.into(),
            builder: builder.map_err(Error::place(name))?,
            are_covered,
            verify,
            is_fetched: false,
            has_needs: false,
        })
    }
}

impl<'a> Work<'a> for OpenModel {
    /// The model, and whether it depends on the bytes of tensors.
    type Output = (Model, bool);

    fn needs(&mut self) -> Result<Vec<Need>> {
        if self.is_fetched {
            return Ok(Vec::new());
        }
        let needs = self.builder.needs().into_iter();
        Ok(needs
            .map(|(file, range)| Need {
                level: 0,
                file,
                range,
                is_compared: self.are_covered[file],
            })
            .collect())
    }

    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        self.has_needs = !needs.is_empty();
        for (need, bytes) in needs.into_iter().zip(bytes) {
            self.builder.supply(need.file, need.range.start, &bytes);
        }
        self.is_fetched = true;
        Ok(())
    }

    fn finish(self, engine: &Engine) -> Result<(Model, bool)> {
        let model = self.builder.verify(self.verify).finish(engine);
        Ok((model.map_err(Error::place(&self.name))?, self.has_needs))
    }
}

/// Refuses a model with weights that may be unreadable because the bytes of one of their
/// small tensors came from another version. `change` is the first result of
/// [`Source::other_version`](crate::Source::other_version) of its files.
pub(super) fn of_one_version(
    (model, has_needs): (Model, bool),
    change: Option<Error>,
) -> Result<Model> {
    match change {
        Some(change) if has_needs && model.refused().next().is_some() => Err(change),
        _ => Ok(model),
    }
}
