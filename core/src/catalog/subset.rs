//! Projection of a catalog onto one of its tensors.

use alloc::collections::BTreeMap;

use super::{FileCatalog, FileTensor, Refused};

impl FileCatalog {
    /// Returns a catalog that contains only tensor `number` and only the data
    /// required to decode it.
    ///
    /// # Panics
    /// If the number is out of bounds.
    pub(crate) fn project(&self, number: usize) -> Self {
        Self {
            contents: self.contents.project(number),
            tensors: [FileTensor {
                alias_of: None,
                ..self.tensors[number].clone()
            }]
            .into(),
            metadata: BTreeMap::new(),
            by_name: BTreeMap::new(),
            refused: Refused::default(),
            original_header: None,
            ..*self
        }
    }
}
