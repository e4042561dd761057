//! Chooses the bytes of the base that each tensor is compared with: the tensor
//! of the same name and, if paired deltas are allowed, a renamed one, the common
//! rows of one with another number of rows, or the rows of a fused one
//! (docs/formats/zstn-delta.md 7). A wrong choice costs time and no bytes, since
//! every record is stored in its smallest form.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::BaseHeader;
use super::source::{Source, max_total_bytes};
use super::trailer::ShortDigest;
use crate::bytes::part;
use crate::container::safetensors::HeaderTensor;
use crate::frame::Edition;
use crate::tensor::element_count;

/// Names of fused projections, each with the names of the projections whose rows
/// it concatenates.
const FUSED: [(&str, &[&str]); 5] = [
    ("qkv_proj", &["q_proj", "k_proj", "v_proj"]),
    ("gate_up_proj", &["gate_proj", "up_proj"]),
    ("Wqkv", &["q_proj", "k_proj", "v_proj"]),
    ("to_qkv", &["to_q", "to_k", "to_v"]),
    ("qkv", &["q", "k", "v"]),
];

/// The tensors with another number of rows share at least one in this many of
/// the rows of the longer one.
const MIN_SHARE: u64 = 4;

/// The bytes of the base that a tensor is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The range of the base's whole tensor in its file.
    pub tensor: Range<u64>,
    /// The range in that tensor. It is shorter than the target's tensor if that
    /// one has more rows.
    pub span: Range<u64>,
    /// The number of the base's tensor in ascending order of the names; `None` if
    /// the whole tensor of the same name is meant.
    number: Option<u32>,
}

impl Pair {
    /// Returns the range of the file of the base.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.tensor.start + self.span.start..self.tensor.start + self.span.end
    }

    /// Returns the bytes from those of the base's whole tensor.
    #[must_use]
    pub fn of<'b>(&self, tensor: &'b [u8]) -> &'b [u8] {
        part(tensor, self.span.clone())
    }

    /// Returns whether the trailer has to name the bytes of the base.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.number.is_some()
    }

    /// Returns the entry of the trailer, if it has to name the bytes. `digest` is
    /// the digest of the base's whole tensor.
    #[must_use]
    pub fn source(&self, digest: ShortDigest) -> Option<Source> {
        self.number.map(|number| Source {
            number,
            start: self.span.start,
            len_bytes: self.span.end - self.span.start,
            digest,
        })
    }
}

/// The pairs of a target and a base.
#[derive(Debug)]
pub struct Pairs {
    /// The pairs of those tensors whose bytes the trailer has to name.
    named: BTreeMap<String, Pair>,
}

impl Pairs {
    /// Pairs the tensors of the same name, dtype and length.
    pub(super) fn by_name() -> Self {
        Self {
            named: BTreeMap::new(),
        }
    }

    /// Pairs the tensors of `target` with those of `base`.
    pub(super) fn new(target: &[HeaderTensor], base: &BaseHeader) -> Self {
        let mut search = Search {
            target: target.iter().map(|t| (t.name.as_str(), t)).collect(),
            base,
            by_suffix: BTreeMap::new(),
        };
        for (number, tensor) in base.tensors().iter().enumerate() {
            for suffix in suffixes(&tensor.name) {
                search.by_suffix.entry(suffix).or_default().push(number);
            }
        }
        let data = base.data();
        let mut left = max_total_bytes(data.end - data.start);
        let mut named = BTreeMap::new();
        for tensor in target {
            if tensor.span.is_empty() || base.reference(tensor).is_some() {
                continue;
            }
            let found = search.find(tensor).and_then(|(number, span)| {
                let whole = base.range_of(number)?;
                left = left.checked_sub(whole.end - whole.start)?;
                Some(Pair {
                    tensor: whole,
                    span,
                    number: Some(u32::try_from(number).ok()?),
                })
            });
            if let Some(pair) = found {
                named.insert(tensor.name.clone(), pair);
            }
        }
        Self { named }
    }

    /// Returns the latest edition that an extended delta of these pairs may require.
    #[must_use]
    pub fn edition(&self) -> Edition {
        match self.named.is_empty() {
            true => Edition::Extended,
            false => Edition::Paired,
        }
    }

    /// Returns the pair of `tensor`, if it has one.
    #[must_use]
    pub fn get(&self, base: &BaseHeader, tensor: &HeaderTensor) -> Option<Pair> {
        if let Some(pair) = self.named.get(&tensor.name) {
            return Some(pair.clone());
        }
        let range = base.reference(tensor)?;
        Some(Pair {
            span: 0..range.end - range.start,
            tensor: range,
            number: None,
        })
    }
}

/// Returns the name and its endings after each dot, up to the first component
/// that is a number: two layers are never taken for each other.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    core::iter::successors(Some(name), |rest| {
        let (first, rest) = rest.split_once('.')?;
        first.parse::<u64>().is_err().then_some(rest)
    })
}

struct Search<'a> {
    target: BTreeMap<&'a str, &'a HeaderTensor>,
    base: &'a BaseHeader,
    /// The numbers of the base's tensors by each of their suffixes.
    by_suffix: BTreeMap<&'a str, Vec<usize>>,
}

impl Search<'_> {
    /// Returns the number of a tensor of the base and a range in it.
    fn find(&self, tensor: &HeaderTensor) -> Option<(usize, Range<u64>)> {
        let len = tensor.span.end - tensor.span.start;
        self.only(&tensor.name, tensor, |of_base| of_base == len)
            .map(|(number, _)| (number, 0..len))
            .or_else(|| self.with_other_rows(tensor, len))
            .or_else(|| self.in_fused(tensor, len))
    }

    /// Returns the only tensor of the base with the longest common suffix with
    /// `name`, with its length, if it has the dtype of `tensor` and a length that
    /// `fits`.
    fn only(
        &self,
        name: &str,
        tensor: &HeaderTensor,
        fits: impl Fn(u64) -> bool,
    ) -> Option<(usize, u64)> {
        suffixes(name).find_map(|suffix| {
            let numbers = self.by_suffix.get(suffix)?.iter();
            let mut fitting = numbers.filter_map(|&number| {
                let len = self.base.len_of(number, tensor)?;
                fits(len).then_some((number, len))
            });
            match (fitting.next(), fitting.next()) {
                (Some(only), None) => Some(only),
                _ => None,
            }
        })
    }

    /// Finds a tensor that has more or fewer of the same rows.
    fn with_other_rows(&self, tensor: &HeaderTensor, len: u64) -> Option<(usize, Range<u64>)> {
        let (_, row) = tensor.shape.split_first()?;
        let row_bits = element_count(row)?.checked_mul(tensor.dtype.bits())?;
        let row_bytes = (row_bits / 8).max(1);
        let fits = |of_base: u64| {
            let (short, long) = (len.min(of_base), len.max(of_base));
            row_bits.is_multiple_of(8)
                && of_base.is_multiple_of(row_bytes)
                && short >= long.div_ceil(MIN_SHARE)
        };
        // A suffix such as `weight` alone says nothing about the meaning of rows.
        let named = suffixes(&tensor.name).take_while(|suffix| suffix.contains('.'));
        let name = named.last().unwrap_or(&tensor.name);
        let in_base = |name: &str| {
            let number = self.base.number(name)?;
            let len = self.base.len_of(number, tensor)?;
            fits(len).then_some((number, len))
        };
        let found = in_base(&tensor.name).or_else(|| {
            let numbers = self.by_suffix.get(name)?;
            match numbers[..] {
                [number] => in_base(&self.base.tensors()[number].name),
                _ => None,
            }
        });
        found.map(|(number, of_base)| (number, 0..len.min(of_base)))
    }

    /// Finds the rows of the tensor in a fused one.
    fn in_fused(&self, tensor: &HeaderTensor, len: u64) -> Option<(usize, Range<u64>)> {
        FUSED.iter().find_map(|(fused, parts)| {
            let with = |part: &str, other: &str| replaced(&tensor.name, part, other);
            let own = parts.iter().find(|part| with(part, part).is_some())?;
            let mut start = None;
            let mut total = 0u64;
            for part in *parts {
                let sibling = self.target.get(&*with(own, part)?)?;
                if part == own {
                    start = Some(total);
                }
                total = total.checked_add(sibling.span.end - sibling.span.start)?;
            }
            let (number, _) = self.only(&with(own, fused)?, tensor, |len| len == total)?;
            let start = start?;
            Some((number, start..start + len))
        })
    }
}

/// Replaces the component `from` of a name, if there is one.
fn replaced(name: &str, from: &str, to: &str) -> Option<String> {
    let mut components: Vec<&str> = name.split('.').collect();
    let found = components
        .iter_mut()
        .find(|component| **component == from)?;
    *found = to;
    Some(components.join("."))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn suffixes_end_at_the_first_number() {
        let all: Vec<_> = suffixes("model.layers.0.q.weight").collect();
        let rest = "0.q.weight";
        assert_eq!(all, ["model.layers.0.q.weight", "layers.0.q.weight", rest]);
        assert_eq!(suffixes("weight").collect::<Vec<_>>(), ["weight"]);
        assert_eq!(suffixes("").collect::<Vec<_>>(), vec![""]);
    }

    #[test]
    fn one_component_is_replaced() {
        assert_eq!(
            replaced("a.q_proj.weight", "q_proj", "qkv_proj").as_deref(),
            Some("a.qkv_proj.weight")
        );
        assert_eq!(replaced("a.q_projection.weight", "q_proj", "x"), None);
    }
}
