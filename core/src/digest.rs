//! BLAKE3, the digest of tensors.

use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{Hash, Hasher};

use crate::engine::Engine;

/// A BLAKE3 digest of 256 bits.
pub type Digest = [u8; 32];

/// Returns the digest of the concatenated `pieces`.
pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut hasher = Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize().into()
}

/// Returns the digest of the bytes that `feed` passes to its argument piece by
/// piece.
///
/// # Errors
/// The errors of `feed`, such as a failed read.
pub fn of_fed<E>(feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>) -> Result<Digest, E> {
    let mut hasher = Hasher::new();
    feed(&mut |piece| {
        hasher.update(piece);
    })?;
    Ok(hasher.finalize().into())
}

/// Returns the digest of bytes in memory. Long inputs are hashed on all
/// threads.
pub fn of<E: Engine>(engine: &E, bytes: &[u8]) -> Digest {
    if bytes.len() <= SUBTREE_BYTES {
        return blake3::hash(bytes).into();
    }
    let starts = (0..).step_by(SUBTREE_BYTES);
    let subtrees = starts.zip(bytes.chunks(SUBTREE_BYTES)).collect();
    let values = engine.map(subtrees, |(start, subtree)| {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(start).update(subtree);
        hasher.finalize_non_root()
    });
    let (left, right) = halves(&values);
    Hash::into(merge_subtrees_root(
        &merged(left),
        &merged(right),
        Mode::Hash,
    ))
}

/// The number of bytes hashed by one job: a whole subtree of BLAKE3's tree of
/// chunks, except at the end of the input.
const SUBTREE_BYTES: usize = 1 << 19;

/// Splits the chaining values between the two subtrees: the left one gets the
/// largest power of two that leaves at least one value for the right one.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

fn merged(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [only] => *only,
        _ => {
            let (left, right) = halves(values);
            merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::pure::Pure;

    #[test]
    fn subtrees_make_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0u32..).flat_map(u32::to_le_bytes).take(5 << 20).collect();
        for len in [0, 1, 1024, SUBTREE_BYTES] {
            for len in [len, len + 1] {
                assert_eq!(
                    of(&Pure, &bytes[..len]),
                    of_pieces([&bytes[..len]]),
                    "{len}"
                );
            }
        }
        for subtrees in 2..10 {
            for len in [subtrees * SUBTREE_BYTES - 1, subtrees * SUBTREE_BYTES] {
                assert_eq!(
                    of(&Pure, &bytes[..len]),
                    *blake3::hash(&bytes[..len]).as_bytes()
                );
            }
        }
    }
}
