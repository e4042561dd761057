//! States which tensors of a model a device can load without the CPU's decoder.

use std::ops::Range;

use zstn::Reader;
use zstn_core::bytes;
use zstn_core::frame::plan::{DevicePlan, Placement};

use super::divide::frame;
use crate::Result;

/// The tensors of a model that a device decodes, or copies because they are not packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Number of these tensors.
    pub tensors: usize,
    /// Their length in bytes.
    pub len_bytes: u64,
}

/// Determines which tensors a device decodes. A tensor of a delta counts only if the device
/// also decodes or copies the base's tensor. This reads all packed tensors, because only their
/// blocks state how they are coded, but decodes none.
///
/// # Errors
/// A tensor cannot be read, or is damaged in a way that does not require decoding.
pub fn coverage(reader: &Reader) -> Result<Coverage> {
    let mut coverage = Coverage::default();
    for number in 0..reader.tensors().len() {
        if let Some(len_bytes) = covered_bytes(reader, number)? {
            coverage.tensors += 1;
            coverage.len_bytes = coverage.len_bytes.saturating_add(len_bytes);
        }
    }
    Ok(coverage)
}

/// Returns the length of a tensor if a device decodes or copies it.
fn covered_bytes(reader: &Reader, number: usize) -> Result<Option<u64>> {
    let Some(tensor) = reader.tensors().get(number) else {
        return Ok(None);
    };
    let output: Range<u64> = 0..tensor.len_bytes();
    if output.is_empty() {
        return Ok(Some(0));
    }
    if tensor.base.is_some() {
        let base = reader.base().filter(|_| frame(reader, number).is_some());
        let Some(base) = base else { return Ok(None) };
        if covered_bytes(base, base.model().find(&tensor.name)?)?.is_none() {
            return Ok(None);
        }
    }
    let Some(part) = frame(reader, number) else {
        let is_plain = reader.model().plain_part(number).is_some();
        return Ok(is_plain.then_some(output.end));
    };
    let (Some(file), Some(source)) = (
        reader.model().files().get(part.file),
        reader.sources().get(part.file),
    ) else {
        return Ok(None);
    };
    let mut stored = bytes::buffer(part.len_bytes())?;
    source.read_into(part.stored.start, &mut stored)?;
    let mut plan = DevicePlan::new();
    let (engine, len_bytes) = (reader.engine(), output.end);
    let placement = file.add_to_plan(engine, part.number, &stored, 0, output, &mut plan)?;
    Ok((placement == Placement::Device).then_some(len_bytes))
}
