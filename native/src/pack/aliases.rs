//! Finds tensors with equal bytes, which are stored once.

use std::collections::BTreeMap;

use zstn_core::checksum::checksum_fed;
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::container::zstn::aliases;
use zstn_core::digest::Digest;

use super::tensor_data::Data;
use crate::Result;

/// For every tensor, the index of an earlier tensor with the same bytes, if there is
/// one. If there are several, this is the first of them.
pub(crate) struct Aliases {
    targets: Vec<Option<usize>>,
    search: Option<Search>,
}

/// The state of a search while the tensors arrive. Bytes that have been packed can no
/// longer be read.
struct Search {
    /// True for each tensor whose length another tensor has too.
    may_be_equal: Vec<bool>,
    /// The first tensor with each length and digest.
    first: BTreeMap<(u64, Digest), usize>,
}

impl Aliases {
    /// Finds aliases among tensors, or prepares a search if they arrive later.
    pub(super) fn of(data: &Data, tensors: &[HeaderTensor]) -> Result<Self> {
        let spans = tensors.iter().map(|tensor| &tensor.span);
        let lens_bytes: Vec<u64> = spans.map(|span| span.end - span.start).collect();
        Ok(match data.arriving.is_some() {
            true => Self {
                targets: vec![None; tensors.len()],
                search: Some(Search::new(&lens_bytes)),
            },
            false => Self {
                targets: find(data, tensors, &lens_bytes)?,
                search: None,
            },
        })
    }

    /// Returns no aliases for `count` tensors, for a format that stores none.
    pub(crate) fn none(count: usize) -> Self {
        Self {
            targets: vec![None; count],
            search: None,
        }
    }

    /// Returns the number of the earlier tensor to which tensor `number` refers, if it
    /// is stored as an alias.
    pub(super) fn of_tensor(&self, number: usize) -> Option<usize> {
        self.targets[number]
    }

    /// Returns the number of aliases.
    pub(super) fn count(&self) -> usize {
        self.targets.iter().flatten().count()
    }

    /// Returns whether tensor `number`, which will arrive, may have the same bytes as
    /// another one, so that [`Self::add`] needs its digest.
    pub(super) fn need_digest(&self, number: usize) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.may_be_equal[number])
    }

    /// Compares tensor `number`, which has arrived, with all earlier tensors.
    pub(super) fn add(&mut self, number: usize, len_bytes: u64, digest: Digest) {
        if let Some(search) = &mut self.search {
            // Tensors with equal 256-bit digests are treated as equal.
            let first = *search.first.entry((len_bytes, digest)).or_insert(number);
            self.targets[number] = (first != number).then_some(first);
        }
    }
}

impl Search {
    fn new(lens_bytes: &[u64]) -> Self {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for &len in lens_bytes {
            *counts.entry(len).or_default() += 1;
        }
        Self {
            may_be_equal: lens_bytes.iter().map(|len| counts[len] > 1).collect(),
            first: BTreeMap::new(),
        }
    }
}

fn find(data: &Data, tensors: &[HeaderTensor], lens_bytes: &[u64]) -> Result<Vec<Option<usize>>> {
    let probe = |number: usize| {
        let start = tensors[number].span.start;
        checksum_fed(|sink| {
            let ranges = aliases::probed_ranges(lens_bytes[number]);
            ranges
                .iter()
                .try_for_each(|range| data.feed(&(start + range.start..start + range.end), sink))
        })
    };
    aliases::find(lens_bytes, probe, |number| {
        data.digest(&tensors[number].span)
    })
}
