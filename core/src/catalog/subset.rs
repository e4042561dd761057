//! Projects a catalog onto one of its tensors.

use alloc::collections::BTreeMap;

use super::{FileCatalog, FileTensor, Refused};

impl FileCatalog {
    /// Returns a catalog of tensor `number` alone, with nothing but what
    /// decoding it takes.
    ///
    /// # Panics
    /// If there is no tensor with that number.
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
