//! Finds tensors with equal bytes, which are stored once
//! (docs/formats/z4ai-containers.md 2.3 rule 2).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::checksum::checksum;
use crate::digest::Digest;
use crate::sort;

/// The number of bytes that are compared first, at the start, in the middle and
/// at the end of a tensor.
const PROBE_BYTES: usize = 512;

/// Returns, for every tensor, the number of an earlier tensor with the same
/// bytes, if there is one: always the first such tensor.
///
/// `tensor` returns the bytes of a tensor, which are only probed. `digest` is
/// called once for each of the few tensors that may be equal.
pub fn find<'a>(
    lens_bytes: &[u64],
    tensor: impl Fn(usize) -> &'a [u8],
    digest: impl Fn(usize) -> Digest,
) -> Vec<Option<usize>> {
    let probes: Vec<(u64, u64)> = lens_bytes
        .iter()
        .enumerate()
        .map(|(number, &len_bytes)| (len_bytes, probe(tensor(number))))
        .collect();
    let mut aliases = vec![None; lens_bytes.len()];
    let order = sort::by_key(probes.iter().copied());
    for alike in order.chunk_by(|&a, &b| probes[a] == probes[b]) {
        if alike.len() == 1 {
            continue;
        }
        let mut first: BTreeMap<Digest, usize> = BTreeMap::new();
        for &number in alike {
            // Equality of 256-bit digests is taken for equality of bytes.
            let earliest = *first.entry(digest(number)).or_insert(number);
            if earliest != number {
                aliases[number] = Some(earliest);
            }
        }
    }
    aliases
}

/// Returns a checksum that is equal for equal tensors.
fn probe(bytes: &[u8]) -> u64 {
    if bytes.len() <= 3 * PROBE_BYTES {
        return checksum([bytes]);
    }
    let middle = bytes.len() / 2;
    checksum([
        &bytes[..PROBE_BYTES],
        &bytes[middle..middle + PROBE_BYTES],
        &bytes[bytes.len() - PROBE_BYTES..],
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    #[test]
    fn the_first_of_equal_tensors_is_named() {
        let mut odd = vec![7u8; 5000];
        odd[700] = 8; // not where a probe looks
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
        let aliases = find(
            &lens,
            |i| &tensors[i],
            |i| digest::of_pieces([tensors[i].as_slice()]),
        );
        assert_eq!(
            aliases,
            [None, None, None, Some(1), None, Some(0), Some(4), None]
        );
    }
}
