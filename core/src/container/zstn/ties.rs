//! Tensors with the same bytes, which are stored once
//! (docs/formats/z4ai-containers.md 2.3 rule 2).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::digest::{self, Digest};

/// Bytes looked at first, at the start, the middle and the end of a tensor.
const PROBE_BYTES: usize = 512;

/// For every tensor the number of the first one with the same bytes, if that
/// is an earlier one.
///
/// `tensor` gives the bytes of a tensor, which are only probed. `digest` is
/// asked for the few that might be equal, once each.
pub fn find<'a>(
    lens_bytes: &[u64],
    tensor: impl Fn(usize) -> &'a [u8],
    digest: impl Fn(usize) -> Digest,
) -> Vec<Option<usize>> {
    let mut alike: BTreeMap<(u64, [u8; 32]), Vec<usize>> = BTreeMap::new();
    for (number, &len_bytes) in lens_bytes.iter().enumerate() {
        let probe = probe(tensor(number));
        alike.entry((len_bytes, probe)).or_default().push(number);
    }
    let mut ties = vec![None; lens_bytes.len()];
    for ((len_bytes, _), numbers) in alike {
        if numbers.len() == 1 {
            continue;
        }
        let probed_whole = len_bytes <= 3 * PROBE_BYTES as u64;
        let mut first: BTreeMap<Digest, usize> = BTreeMap::new();
        for number in numbers {
            // Equality of 256-bit digests stands for equality of bytes.
            let digest = if probed_whole {
                [0; 32]
            } else {
                digest(number)
            };
            let earliest = *first.entry(digest).or_insert(number);
            if earliest != number {
                ties[number] = Some(earliest);
            }
        }
    }
    ties
}

fn probe(bytes: &[u8]) -> [u8; 32] {
    if bytes.len() <= 3 * PROBE_BYTES {
        return digest::of_pieces([bytes]);
    }
    let middle = bytes.len() / 2;
    digest::of_pieces([
        &bytes[..PROBE_BYTES],
        &bytes[middle..middle + PROBE_BYTES],
        &bytes[bytes.len() - PROBE_BYTES..],
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let ties = find(
            &lens,
            |i| &tensors[i],
            |i| digest::of_pieces([tensors[i].as_slice()]),
        );
        assert_eq!(
            ties,
            [None, None, None, Some(1), None, Some(0), Some(4), None]
        );
    }
}
