//! Attaches the bases of deltas, and opens bases that are computed
//! (docs/formats/zstn-delta.md 9).

use std::sync::Arc;

use super::external::Beside;
use super::original::Restored;
use super::state_machine::Opened;
use super::{Files, Reader, check_takes_base};
use crate::catalog::open_catalog;
use crate::delta::{is_base_computed, sources_of_base};
use crate::source::{Mixed, Source, source_header};
use crate::{Error, Result};

/// Attaches `bases` to `reader`. The base of a delta comes after it, then the base of that
/// base, and so on. If a delta was made against several checkpoints, these follow one
/// another, each with its own bases after it. `attach` attaches checkpoints to a delta.
///
/// # Errors
/// A base that is left; the errors of `attach`.
pub(super) fn attach_all<R: Opened>(
    reader: R,
    bases: Vec<Result<R>>,
    attach: impl Fn(R, Vec<R>, bool) -> Result<R>,
) -> Result<R> {
    // The checkpoints that wait for their delta, the first one at the end.
    let mut waiting: Vec<R> = Vec::new();
    for base in bases.into_iter().rev() {
        let base = base?;
        let own = taken(&base, &mut waiting);
        waiting.push(match own.is_empty() {
            true => base,
            false => attach(base, own, false)?,
        });
    }
    let own = taken(&reader, &mut waiting);
    if let (Some(left), Some(last)) = (waiting.last(), own.last()) {
        let innermost = std::iter::successors(Some(last), |base| base.base()).last();
        let name = innermost.unwrap_or(last).name();
        return Err(Error::Usage(format!(
            "{name} is not a delta, so it takes no base; leave out {}",
            left.name()
        )));
    }
    match own.is_empty() {
        true => Ok(reader),
        false => attach(reader, own, true),
    }
}

/// Takes the checkpoints that `delta` was made against; none if it is not a delta.
fn taken<R: Opened>(delta: &R, waiting: &mut Vec<R>) -> Vec<R> {
    let count = sources_of_base(delta.model()).min(waiting.len());
    waiting.drain(waiting.len() - count..).rev().collect()
}

impl Reader {
    /// Attaches the checkpoints that this delta was made against.
    pub(super) fn attach_bases(self, mut bases: Vec<Self>) -> Result<Self> {
        let base = match is_base_computed(&self.model) {
            true => self.mixed_base(bases)?,
            false => bases.remove(0),
        };
        self.attach_base(base)
    }

    /// Opens the base of this delta that is computed from `sources`. If the delta has
    /// several files, so has the base.
    ///
    /// # Errors
    /// Sources whose headers do not match the delta.
    pub(super) fn mixed_base(&self, sources: Vec<Self>) -> Result<Self> {
        check_takes_base(self)?;
        let merged = sources.clone();
        let sources = sources.into_iter().map(|source| {
            let restored = Restored::of_model(source)?;
            Ok(Arc::new(restored) as Arc<dyn Source>)
        });
        let sources: Vec<Arc<dyn Source>> = sources.collect::<Result<_>>()?;
        let headers = sources.iter().map(|source| source_header(&**source));
        let headers: Vec<_> = headers.collect::<Result<_>>()?;
        let mut files: Vec<Box<dyn Source>> = Vec::new();
        let mut catalogs = Vec::new();
        for delta in self.model.files().iter().filter(|file| file.needs_base()) {
            let base = delta.mixed_base(&headers);
            let base = base.map_err(Error::place(self.name()))?;
            let mixed = Mixed::new(base.unwrap_or_default(), sources.clone());
            catalogs.push(open_catalog(&self.engine, &mixed)?);
            files.push(Box::new(mixed));
        }
        let name = files.first().map(|file| file.name().to_owned());
        Ok(Self {
            model: Arc::new(self.model_of(catalogs)?),
            files: Arc::new(Files {
                name: name.unwrap_or_default(),
                sources: files,
                data_shards: Vec::new(),
                packed: None,
                merged,
                beside: Beside::default(),
            }),
            engine: self.engine.clone(),
            base: None,
            bands: Arc::default(),
        })
    }
}
