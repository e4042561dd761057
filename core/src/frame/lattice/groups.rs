//! The properties of each group: its scale, its offset, and the exceptions.

use alloc::format;
use alloc::vec::Vec;

use super::Head;
use super::exceptions::Exceptions;
use crate::float::{FloatType, from_bf16, from_f16};
use crate::{Error, Result, Rule};

/// The decoded side frames, which hold the properties of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    pub(super) scales: Vec<f32>,
    /// The offset of each group; empty if the grid has no offsets.
    pub(super) offsets: Vec<u8>,
    pub(super) exceptions: Exceptions,
}

impl Groups {
    /// Combines the exceptions with the decoded content of the inner frames of
    /// scales and offsets.
    pub(super) fn new(
        head: &Head,
        scales: &[u8],
        offsets: Vec<u8>,
        exceptions: Exceptions,
    ) -> Result<Self> {
        let scales: Vec<f32> = match head.scales {
            FloatType::F32 => floats(scales, f32::from_le_bytes),
            FloatType::Bf16 => floats(scales, |bits| from_bf16(u16::from_le_bytes(bits))),
            FloatType::F16 => floats(scales, |bits| match u16::from_le_bytes(bits) {
                infinite if infinite & 0x7c00 == 0x7c00 => f32::INFINITY,
                finite => from_f16(finite),
            }),
        };
        if let Some(group) = scales.iter().position(|scale| !scale.is_finite()) {
            let detail = format!("the scale of group {group} is not finite");
            return Err(Error::malformed(Rule::LatticeScale, detail));
        }
        Ok(Self {
            scales,
            offsets,
            exceptions,
        })
    }
}

fn floats<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (items, _) = bytes.as_chunks::<N>();
    items.iter().map(|&item| convert(item)).collect()
}
