//! Tensors with equal bytes, which are stored once.

use std::collections::BTreeMap;
use std::ops::Range;

use zstn_core::container::safetensors::Tensor;
use zstn_core::digest::Digest;
use zstn_core::engine::Engine as _;

use super::FilePacker;

/// For every tensor the number of the first one with the same bytes, if that is
/// an earlier one.
pub(super) struct Ties {
    pub(super) aliases: Vec<Option<usize>>,
    search: Option<Search>,
}

/// Finding them while the tensors come: what has been packed is gone.
struct Search {
    /// Whether some other tensor is as long.
    may_be_equal: Vec<bool>,
    /// The first tensor with each length and digest.
    first: BTreeMap<(u64, Digest), usize>,
}

impl Ties {
    /// All of them, where every tensor is there.
    pub(super) fn known(aliases: Vec<Option<usize>>) -> Self {
        Self {
            aliases,
            search: None,
        }
    }

    /// None so far, of tensors that come later.
    pub(super) fn unknown(tensors: &[Tensor]) -> Self {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        let lens = || tensors.iter().map(|t| t.span.end - t.span.start);
        lens().for_each(|len| *counts.entry(len).or_default() += 1);
        Self {
            aliases: vec![None; tensors.len()],
            search: Some(Search {
                may_be_equal: lens().map(|len| counts[&len] > 1).collect(),
                first: BTreeMap::new(),
            }),
        }
    }

    /// Compares the tensors with these numbers, which are there now, with those
    /// before them.
    pub(super) fn look_at(
        &mut self,
        packer: &FilePacker,
        tensors: &[Tensor],
        numbers: Range<usize>,
    ) {
        let Some(search) = &mut self.search else {
            return;
        };
        let numbers: Vec<usize> = numbers.filter(|&n| search.may_be_equal[n]).collect();
        let digests = packer.engine.map(numbers.clone(), |number| {
            packer.digest(&tensors[number].span)
        });
        for (number, digest) in numbers.into_iter().zip(digests) {
            let span = &tensors[number].span;
            let key = (span.end - span.start, digest);
            // Equality of 256-bit digests is taken for equality of bytes.
            let first = *search.first.entry(key).or_insert(number);
            self.aliases[number] = (first != number).then_some(first);
        }
    }
}
