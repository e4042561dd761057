//! PyTorch checkpoints (docs/formats/pytorch.md). A pickle describes the tensors; it is
//! read by a machine that builds plain values and runs no code. The bytes of the
//! tensors are in storages: members of a zip archive, or, in files from before version
//! 1.6, the rest of the file.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::catalog::Refusals;
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

mod calls;
mod construct;
mod element;
mod layout;
mod legacy;
mod listed_tensor;
mod listing;
mod machine;
mod plain_text;
mod text;
mod value;

pub(crate) use element::cut;
pub(crate) use layout::Layout;
pub(crate) use legacy::{ParsedLegacy, parse as parse_legacy};

/// The tensors that a pickle describes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoint {
    /// The tensors, in the order in which the pickle lists them.
    pub tensors: Vec<ListedTensor>,
    /// The tensors that cannot be read.
    pub refused: Refusals,
    /// The other values as text, by name.
    pub metadata: BTreeMap<String, String>,
    /// The storages of the tensors.
    pub storages: Vec<StoredStorage>,
}

/// A tensor in a storage.
#[derive(Debug, Clone)]
pub(crate) struct ListedTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// The number of the storage in [`Checkpoint::storages`].
    pub storage: usize,
    /// The range of the storage from the first to the last element, in bytes.
    pub range: Range<u64>,
    pub layout: Layout,
}

/// Bytes that tensors share.
#[derive(Debug, Clone)]
pub(crate) struct StoredStorage {
    pub key: String,
    pub len_bytes: u64,
}

impl Checkpoint {
    /// Reads `pickle`, the member `data.pkl` of an archive.
    ///
    /// # Errors
    /// [`Rule::PyTorchPickle`] if it is malformed or has no end, and the first error if
    /// no tensor can be read.
    pub(crate) fn parse(pickle: &[u8], is_big_endian: bool) -> Result<Self> {
        let (machine, root, _) =
            machine::Machine::run(pickle).map_err(|error| match error.rule() {
                Some(Rule::Truncated) => {
                    let detail = "the pickle ends before its last opcode";
                    Error::malformed(Rule::PyTorchPickle, detail).at(pickle.len() as u64)
                }
                _ => error,
            })?;
        listing::list(machine, root, is_big_endian)
    }
}
