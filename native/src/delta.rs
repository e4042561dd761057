//! A checkpoint as its difference from a base, and back.

use zstn_core::container::model_delta::{self, Base, Content, ModelDelta};
use zstn_core::frame::select::Effort;

use crate::source::{Map, Source};
use crate::{Error, Native, Output, Result, UnpackReport};

/// What packing against a base came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaReport {
    /// Length of the safetensors file.
    pub original_bytes: u64,
    /// Length of the delta.
    pub packed_bytes: u64,
    /// Tensors in the file.
    pub tensors: usize,
    /// Tensors equal to those of the base.
    pub copied: usize,
    /// Tensors stored as a difference.
    pub differing: usize,
}

/// Packs the safetensors file `target` against `base`.
pub fn pack_delta(
    engine: &Native,
    target: &Map,
    base: &Map,
    mut output: Output,
    effort: Effort,
) -> Result<DeltaReport> {
    let parsed = Base::parse(base).map_err(Error::place(base.name()))?;
    let packed =
        model_delta::pack(engine, target, &parsed, effort).map_err(Error::place(target.name()))?;
    output.write(&packed)?;
    let delta = ModelDelta::parse(&packed).map_err(Error::place(target.name()))?;
    let count = |wanted: fn(&Content) -> bool| {
        let records = delta.records().iter();
        records.filter(|record| wanted(&record.content)).count()
    };
    let report = DeltaReport {
        original_bytes: target.len_bytes(),
        packed_bytes: packed.len() as u64,
        tensors: delta.records().len(),
        copied: count(|content| *content == Content::Copy),
        differing: count(|content| matches!(content, Content::Delta(_))),
    };
    output.finish()?;
    Ok(report)
}

/// Restores the file that `input` was packed from against `base`.
pub fn unpack_delta(
    engine: &Native,
    input: &Map,
    base: &Map,
    mut output: Output,
) -> Result<UnpackReport> {
    let parsed = Base::parse(base).map_err(Error::place(base.name()))?;
    let restored = ModelDelta::parse(input)
        .and_then(|delta| delta.unpack(engine, &parsed))
        .map_err(Error::place(input.name()))?;
    output.write(&restored)?;
    output.finish()?;
    Ok(UnpackReport {
        packed_bytes: input.len_bytes(),
        original_bytes: restored.len() as u64,
    })
}
