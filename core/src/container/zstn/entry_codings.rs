//! How the entries of a virtual header are coded (docs/formats/zstn-virtual-header.md 2).
//! A packer that has these codings and the JSON of the header needs no code for the
//! format of the original.

use alloc::collections::BTreeMap;

use crate::container::safetensors::HeaderTensor;
use crate::{TensorRef, sort};

/// The codings of the entries of a virtual header that are not tensors of a plain dtype.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryCodings(BTreeMap<u64, u8>);

impl EntryCodings {
    /// Creates the codings of entries from pairs: the offset of the entry in the original
    /// in bytes, and the bytes of a block, or 0 for bytes without a structure.
    #[must_use]
    pub fn new(codings: impl IntoIterator<Item = (u64, u8)>) -> Self {
        Self(sort::map(codings.into_iter()))
    }

    /// Returns the pairs that [`EntryCodings::new`] takes, in the order of the offsets.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.0.iter().map(|(&offset, &block)| (offset, block))
    }

    /// Returns the codings of a file that consists of this entry alone.
    #[must_use]
    pub fn of_entry(&self, entry: &HeaderTensor) -> Self {
        let coding = self.0.get(&entry.span.start);
        Self::new(coding.map(|block| (0, *block)))
    }

    /// Returns whether an entry has a plain dtype, so that statistics of its elements have
    /// a meaning.
    #[must_use]
    pub fn is_plain(&self, entry: &HeaderTensor) -> bool {
        !self.0.contains_key(&entry.span.start)
    }

    /// Returns the bytes of an entry as the encoder takes them.
    #[must_use]
    pub fn content<'a>(&self, entry: &'a HeaderTensor, bytes: &'a [u8]) -> TensorRef<'a> {
        match self.0.get(&entry.span.start) {
            None => TensorRef::new(bytes, entry.dtype, &entry.shape),
            Some(0) => TensorRef::flat(bytes, None),
            Some(&width) => TensorRef::blocks(bytes, width),
        }
    }
}
