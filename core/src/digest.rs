//! BLAKE3, the digest of tensors.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

pub(crate) use blake3::hazmat::ChainingValue;
use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};
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

/// Returns the digest of bytes in memory. Long inputs are hashed on all
/// threads.
pub fn of<E: Engine>(engine: &E, bytes: &[u8]) -> Digest {
    if bytes.len() <= SUBTREE_BYTES {
        return blake3::hash(bytes).into();
    }
    let starts = (0..).step_by(SUBTREE_BYTES);
    let subtrees = starts.zip(bytes.chunks(SUBTREE_BYTES)).collect();
    root(&engine.map(subtrees, |(start, subtree)| value(start, subtree)))
}

/// Returns the digest of `len_bytes` bytes that `read` returns by their ranges, from many
/// threads and in any order.
///
/// # Errors
/// The error of the first range that cannot be read.
pub fn of_ranges<'a, E: Engine, F: Send>(
    engine: &E,
    len_bytes: u64,
    read: impl Fn(Range<u64>) -> Result<Cow<'a, [u8]>, F> + Sync + Send,
) -> Result<Digest, F> {
    /// The bytes that are read at once: whole subtrees.
    const READ_BYTES: usize = 8 * SUBTREE_BYTES;
    if len_bytes <= SUBTREE_BYTES as u64 {
        return Ok(blake3::hash(&read(0..len_bytes)?).into());
    }
    let starts: Vec<u64> = (0..len_bytes).step_by(READ_BYTES).collect();
    let values = engine.map(starts, |start| {
        let bytes = read(start..len_bytes.min(start + READ_BYTES as u64))?;
        let starts = (start..).step_by(SUBTREE_BYTES);
        let subtrees = starts.zip(bytes.chunks(SUBTREE_BYTES));
        Ok(subtrees
            .map(|(start, subtree)| value(start, subtree))
            .collect())
    });
    let values: Vec<Vec<ChainingValue>> = values.into_iter().collect::<Result<_, F>>()?;
    Ok(root(&values.concat()))
}

/// Returns the chaining value of the subtree that begins at the offset `start`.
fn value(start: u64, subtree: &[u8]) -> ChainingValue {
    SubtreeHasher::new(start).update(subtree).value()
}

/// Hashes one subtree of a longer input. A decoder that produces subtrees in any
/// order hashes each while it is in a CPU cache, and [`of_subtrees`] returns the
/// digest of the input.
pub(crate) struct SubtreeHasher(Hasher);

impl SubtreeHasher {
    /// Begins the subtree at the offset `start` of the input.
    pub fn new(start: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(start);
        Self(hasher)
    }

    /// Adds the next bytes of the subtree.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// Returns the chaining value of the subtree.
    pub fn value(&self) -> ChainingValue {
        self.0.finalize_non_root()
    }
}

/// Returns whether an input of `len` bytes can be hashed as subtrees of
/// `subtree_len` bytes each; the last one may be shorter.
pub(crate) fn has_subtrees(len: usize, subtree_len: usize) -> bool {
    subtree_len.is_power_of_two() && subtree_len >= blake3::CHUNK_LEN && len > subtree_len
}

/// Returns the digest of an input from the chaining values of its subtrees in
/// order; `None` if there are fewer than two.
pub(crate) fn of_subtrees(values: &[ChainingValue]) -> Option<Digest> {
    (values.len() > 1).then(|| root(values))
}

/// Returns the digest of at least two subtrees.
fn root(values: &[ChainingValue]) -> Digest {
    let (left, right) = halves(values);
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
    fn ranges_make_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0u32..).flat_map(u32::to_le_bytes).take(9 << 20).collect();
        for len in [
            0,
            1,
            SUBTREE_BYTES,
            SUBTREE_BYTES + 1,
            8 * SUBTREE_BYTES,
            bytes.len() - 1,
        ] {
            let digest = of_ranges(&Pure, len as u64, |range| {
                Ok::<_, ()>(Cow::Borrowed(crate::bytes::part(&bytes, range)))
            });
            assert_eq!(digest, Ok(of_pieces([&bytes[..len]])), "{len}");
        }
    }

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
