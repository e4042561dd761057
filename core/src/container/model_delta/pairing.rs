//! Finds the bytes of a base that each tensor is compared with, from names,
//! dtypes and shapes alone: a renamed tensor, the common rows of one with
//! another number of rows, or the rows of a fused one
//! (docs/formats/zstn-delta.md 7).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::container::safetensors::HeaderTensor;
use crate::dtype::Dtype;
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

/// A tensor of the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfTarget<'a> {
    pub name: &'a str,
    pub dtype: Dtype,
    pub shape: &'a [u64],
    pub len_bytes: u64,
}

impl<'a> From<&'a HeaderTensor> for OfTarget<'a> {
    fn from(tensor: &'a HeaderTensor) -> Self {
        Self {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
            len_bytes: tensor.span.end - tensor.span.start,
        }
    }
}

/// A tensor of the base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfBase<'a> {
    pub name: &'a str,
    /// The name of the dtype, if it has one.
    pub dtype: Option<&'a str>,
    pub len_bytes: u64,
}

/// The tensors of a target and of a base.
pub(crate) struct Pairing<'a> {
    target: BTreeMap<&'a str, OfTarget<'a>>,
    base: Vec<OfBase<'a>>,
    /// The number of the base's tensor with this ending of its name; `None` if
    /// there are several.
    by_suffix: BTreeMap<&'a str, Option<usize>>,
    /// The same for tensors with this ending, dtype and length.
    by_content: BTreeMap<(&'a str, &'a str, u64), Option<usize>>,
}

impl<'a> Pairing<'a> {
    /// `base` lists the tensors in ascending order of their names.
    pub fn new(
        target: impl Iterator<Item = OfTarget<'a>>,
        base: impl Iterator<Item = OfBase<'a>>,
    ) -> Self {
        let mut pairing = Self {
            target: target.map(|tensor| (tensor.name, tensor)).collect(),
            base: base.collect(),
            by_suffix: BTreeMap::new(),
            by_content: BTreeMap::new(),
        };
        for (number, tensor) in pairing.base.iter().enumerate() {
            for suffix in suffixes(tensor.name) {
                add(&mut pairing.by_suffix, suffix, number);
                // No shorter length is looked for.
                if let Some(dtype) = tensor.dtype.filter(|_| tensor.len_bytes >= MIN_BYTES) {
                    let key = (suffix, dtype, tensor.len_bytes);
                    add(&mut pairing.by_content, key, number);
                }
            }
        }
        pairing
    }

    /// Finds bytes for a tensor without a counterpart of the same name, dtype and
    /// length. Returns the number of a tensor of the base and a range in it, which is
    /// shorter than `tensor` if `tensor` has more rows.
    pub fn find(&self, tensor: &OfTarget) -> Option<(usize, Range<u64>)> {
        let len = tensor.len_bytes;
        if len < MIN_BYTES {
            return None;
        }
        self.only(tensor.name, tensor.dtype, len)
            .map(|number| (number, 0..len))
            .or_else(|| self.with_other_rows(tensor))
            .or_else(|| self.in_fused(tensor))
    }

    /// Returns the only tensor of the base with the longest common suffix with
    /// `name` that has this dtype and length.
    fn only(&self, name: &str, dtype: Dtype, len: u64) -> Option<usize> {
        let dtype = dtype.name();
        suffixes(name).find_map(|suffix| *self.by_content.get(&(suffix, dtype, len))?)
    }

    /// Finds a tensor that has another number of rows of the same length.
    fn with_other_rows(&self, tensor: &OfTarget) -> Option<(usize, Range<u64>)> {
        let (_, row) = tensor.shape.split_first()?;
        let row_bits = element_count(row)?.checked_mul(tensor.dtype.bits())?;
        let (len, row_bytes) = (tensor.len_bytes, (row_bits / 8).max(1));
        let fits = |of_base: u64| {
            let (short, long) = (len.min(of_base), len.max(of_base));
            row_bits.is_multiple_of(8)
                && of_base.is_multiple_of(row_bytes)
                && short >= long.div_ceil(MIN_SHARE)
        };
        let usable = |number: usize| {
            let other = &self.base[number];
            let is_usable = other.dtype == Some(tensor.dtype.name()) && fits(other.len_bytes);
            is_usable.then_some(number)
        };
        let same = self
            .base
            .binary_search_by(|other| other.name.cmp(tensor.name));
        // A suffix of one component, such as `weight`, does not identify a tensor.
        let named = suffixes(tensor.name).take_while(|suffix| suffix.contains('.'));
        let name = named.last().unwrap_or(tensor.name);
        let found = same.ok().and_then(usable).or_else(|| {
            let only = *self.by_suffix.get(name)?;
            usable(only?)
        });
        found.map(|number| (number, 0..len.min(self.base[number].len_bytes)))
    }

    /// Finds the rows of the tensor in a fused one.
    fn in_fused(&self, tensor: &OfTarget) -> Option<(usize, Range<u64>)> {
        FUSED.iter().find_map(|(fused, parts)| {
            let is_named = |part: &&str| tensor.name.split('.').any(|own| own == *part);
            let own = parts.iter().position(is_named)?;
            let with = |other: &str| replaced(tensor.name, parts[own], other);
            let lens = parts.iter().map(|part| {
                let sibling = self.target.get(&*with(part)?)?;
                Some(sibling.len_bytes)
            });
            let lens: Vec<u64> = lens.collect::<Option<_>>()?;
            let ends = lens.iter().scan(0_u64, |end, len| {
                *end = end.checked_add(*len)?;
                Some(*end)
            });
            let ends: Vec<u64> = ends.collect();
            let total = (ends.len() == lens.len()).then(|| ends.last().copied())??;
            let number = self.only(&with(fused)?, tensor.dtype, total)?;
            Some((number, ends[own] - lens[own]..ends[own]))
        })
    }
}

/// Adds a number, or replaces the one before by `None`.
fn add<K: Ord>(numbers: &mut BTreeMap<K, Option<usize>>, key: K, number: usize) {
    numbers
        .entry(key)
        .and_modify(|only| *only = None)
        .or_insert(Some(number));
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
