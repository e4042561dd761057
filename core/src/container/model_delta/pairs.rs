//! Chooses the bytes of the base that each tensor is compared with: the tensor
//! of the same name and, if paired deltas are allowed, a renamed one, the common
//! rows of one with another number of rows, or the rows of a fused one
//! (docs/formats/zstn-delta.md 7). A wrong choice costs time and at most a few
//! bytes, since every record is stored in its smallest form.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::BaseHeader;
use super::record::RecordKind;
use super::source::{BaseRange, max_total_bytes};
use super::trailer::ShortDigest;
use crate::Result;
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

/// Two tensors with different numbers of rows are compared only if the shorter
/// one has at least this fraction of the rows of the longer one: one in
/// `MIN_SHARE`.
const MIN_SHARE: u64 = 4;

/// Shorter tensors, in bytes, are compared only with the tensor of the same name.
/// An entry of `SRCS` takes 37 bytes, and the field itself 28.
const MIN_BYTES: u64 = 256;

/// The number of endings of a name that are compared, beginning with the longest.
const MAX_SUFFIXES: usize = 16;

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
        for tensor in target {
            let len = tensor.span.end - tensor.span.start;
            if len < MIN_BYTES || pairs.contains_key(&tensor.name) {
                continue;
            }
            let found = search.find(tensor, len).and_then(|(number, span)| {
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

/// Returns the name and its endings after each dot, up to the first component
/// that is a number, so that layers with different numbers are never paired.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let suffixes = core::iter::successors(Some(name), |rest| {
        let (first, rest) = rest.split_once('.')?;
        first.parse::<u64>().is_err().then_some(rest)
    });
    suffixes.take(MAX_SUFFIXES)
}

struct Search<'a> {
    target: BTreeMap<&'a str, &'a HeaderTensor>,
    base: &'a BaseHeader,
    /// The numbers of the base's tensors by each of their suffixes.
    by_suffix: BTreeMap<&'a str, Vec<usize>>,
}

impl Search<'_> {
    /// Returns the number of a tensor of the base and a range in it.
    fn find(&self, tensor: &HeaderTensor, len: u64) -> Option<(usize, Range<u64>)> {
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

    /// Finds a tensor that has another number of rows of the same length.
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
        // A suffix of one component, such as `weight`, does not identify a tensor.
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
            let is_named = |part: &&str| tensor.name.split('.').any(|own| own == *part);
            let own = parts.iter().position(is_named)?;
            let with = |other: &str| replaced(&tensor.name, parts[own], other);
            let lens = parts.iter().map(|part| {
                let sibling = self.target.get(&*with(part)?)?;
                Some(sibling.span.end - sibling.span.start)
            });
            // The tensors of a file do not overlap, so the sums fit.
            let lens: Vec<u64> = lens.collect::<Option<_>>()?;
            let (start, total): (u64, u64) = (lens[..own].iter().sum(), lens.iter().sum());
            let (number, _) = self.only(&with(fused)?, tensor, |len| len == total)?;
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
