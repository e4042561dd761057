//! Chooses the bytes of the base that each tensor is compared with: the tensor
//! of the same name and, if paired deltas are allowed, a renamed one, the common
//! rows of one with another number of rows, or the rows of a fused one
//! (docs/formats/zstn-delta.md 7). A wrong choice costs time and at most a few
//! bytes, since every record is stored in its smallest form.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::ops::Range;

use super::BaseHeader;
use super::record::RecordKind;
use super::source::{BaseRange, max_total_bytes};
use super::trailer::ShortDigest;
use crate::Result;
use crate::container::safetensors::HeaderTensor;
use crate::frame::Edition;

/// The bytes of the base that a tensor is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The range of the base's whole tensor in its file.
    pub tensor: Range<u64>,
    /// The range in that tensor. It is shorter than the target's tensor if that
    /// one has more rows.
    pub(super) span: Range<u64>,
    /// The number of the base's tensor in ascending order of the names; `None` for
    /// the whole tensor of the same name.
    number: Option<u32>,
}

impl Pair {
    /// Returns the paired range in the base's file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.tensor.start + self.span.start..self.tensor.start + self.span.end
    }

    /// Returns the length of the entry in `SRCS` that a record with this pair
    /// adds to the trailer.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        self.number.map_or(0, |_| BaseRange::ENTRY_BYTES)
    }

    /// Returns the range for the trailer's entry of a record of this `kind`, or
    /// `None` if the record does not need one. `digest` returns the digest of the
    /// base's whole tensor.
    ///
    /// # Errors
    /// The error of `digest`.
    pub fn source<E>(
        &self,
        kind: RecordKind,
        digest: impl FnOnce() -> Result<ShortDigest, E>,
    ) -> Result<Option<BaseRange>, E> {
        let number = self.number.filter(|_| kind != RecordKind::Full);
        let source = number.map(|number| {
            Ok(BaseRange {
                number,
                start: self.span.start,
                len_bytes: self.span.end - self.span.start,
                digest: digest()?,
            })
        });
        source.transpose()
    }
}

/// The pairs of a target and a base, by the name of the target's tensor.
#[derive(Debug)]
pub struct Pairs(BTreeMap<String, Pair>);

impl Pairs {
    /// Pairs the tensors of the same name, dtype and length.
    pub(super) fn by_name(target: &[HeaderTensor], base: &BaseHeader) -> Self {
        let pairs = target.iter().filter_map(|tensor| {
            let range = base.reference(tensor)?;
            let pair = Pair {
                span: 0..range.end - range.start,
                tensor: range,
                number: None,
            };
            Some((tensor.name.clone(), pair))
        });
        Self(pairs.collect())
    }

    /// Pairs the tensors of the same name, dtype and length, and other tensors of
    /// `target` with other bytes of `base`.
    pub(super) fn new(target: &[HeaderTensor], base: &BaseHeader) -> Self {
        let Self(mut pairs) = Self::by_name(target, base);
        let pairing = base.pairing(target);
        let data = base.data();
        let mut left = max_total_bytes(data.end - data.start);
        for tensor in target {
            if pairs.contains_key(&tensor.name) {
                continue;
            }
            let found = pairing.find(&tensor.into()).and_then(|(number, span)| {
                let whole = base.range_of(number)?;
                left = left.checked_sub(whole.end - whole.start)?;
                Some(Pair {
                    tensor: whole,
                    span,
                    number: Some(u32::try_from(number).ok()?),
                })
            });
            if let Some(pair) = found {
                pairs.insert(tensor.name.clone(), pair);
            }
        }
        Self(pairs)
    }

    /// Returns the latest edition that an extended delta of these pairs may require.
    #[must_use]
    pub fn edition(&self) -> Edition {
        match self.0.values().any(|pair| pair.number.is_some()) {
            true => Edition::Paired,
            false => Edition::Extended,
        }
    }

    /// Returns the pair of `tensor`, if it has one.
    #[must_use]
    pub fn get(&self, tensor: &HeaderTensor) -> Option<&Pair> {
        self.0.get(&tensor.name)
    }
}
