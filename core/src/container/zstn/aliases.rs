//! Finds tensors with equal bytes, so that they are stored only once
//! (docs/formats/z4ai-containers.md 2.3 rule 2).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::digest::Digest;
use crate::sort;

/// The number of bytes that are compared first at each of three places of a
/// tensor: its start, its middle and its end.
const PROBE_BYTES: u64 = 512;

/// Returns, for every tensor, the number of the first tensor with the same
/// bytes, if there is an earlier one.
///
/// `probe` returns the [`checksum`](crate::checksum::checksum) of the tensor's
/// [`probed_ranges`] and is called for tensors that share their length with
/// another one. `digest` is called once for each of the few tensors that may be
/// equal.
///
/// # Errors
/// The errors of `probe` and `digest`, such as a failed read.
pub fn find<E>(
    lens_bytes: &[u64],
    probe: impl Fn(usize) -> Result<u64, E>,
    digest: impl Fn(usize) -> Result<Digest, E>,
) -> Result<Vec<Option<usize>>, E> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for &len_bytes in lens_bytes {
        *counts.entry(len_bytes).or_default() += 1;
    }
    let mut probes: Vec<(u64, u64)> = Vec::with_capacity(lens_bytes.len());
    for (number, &len_bytes) in lens_bytes.iter().enumerate() {
        let sum = match counts[&len_bytes] {
            1 => 0,
            _ => probe(number)?,
        };
        probes.push((len_bytes, sum));
    }
    let mut aliases = vec![None; lens_bytes.len()];
    let order = sort::by_key(probes.iter().copied());
    for alike in order.chunk_by(|&a, &b| probes[a] == probes[b]) {
        if alike.len() == 1 {
            continue;
        }
        let mut first: BTreeMap<Digest, usize> = BTreeMap::new();
        for &number in alike {
            // Equal 256-bit digests are taken to mean equal bytes.
            let earliest = *first.entry(digest(number)?).or_insert(number);
            if earliest != number {
                aliases[number] = Some(earliest);
            }
        }
    }
    Ok(aliases)
}

/// Returns the ranges of a tensor of `len_bytes` that are compared first: its
/// start, its middle and its end, or the whole of a short tensor.
#[must_use]
pub fn probed_ranges(len_bytes: u64) -> Vec<Range<u64>> {
    if len_bytes <= 3 * PROBE_BYTES {
        return core::iter::once(0..len_bytes).collect();
    }
    let middle = len_bytes / 2;
    vec![
        0..PROBE_BYTES,
        middle..middle + PROBE_BYTES,
        len_bytes - PROBE_BYTES..len_bytes,
    ]
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;
    use crate::bytes::part;
    use crate::checksum::checksum;
    use crate::digest;

    #[test]
    fn the_first_of_equal_tensors_is_named() {
        let mut odd = vec![7u8; 5000];
        odd[700] = 8; // outside the probed ranges
        let tensors: Vec<Vec<u8>> = vec![
            vec![],
            vec![7; 5000],
            odd,
            vec![7; 5000],
            vec![1, 2],
            vec![],
            vec![1, 2],
            vec![1, 3],
        ];
        let lens: Vec<u64> = tensors.iter().map(|t| t.len() as u64).collect();
        let probe = |i: usize| {
            let ranges = probed_ranges(lens[i]).into_iter();
            Ok::<_, Infallible>(checksum(ranges.map(|range| part(&tensors[i], range))))
        };
        let digest = |i: usize| Ok(digest::of_pieces([tensors[i].as_slice()]));
        assert_eq!(
            find(&lens, probe, digest),
            Ok(vec![
                None,
                None,
                None,
                Some(1),
                None,
                Some(0),
                Some(4),
                None
            ])
        );
    }
}
