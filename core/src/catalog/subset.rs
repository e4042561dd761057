//! A catalog of one of its tensors.

use alloc::collections::BTreeMap;

use super::{Contents, FileCatalog, Tensor};

impl FileCatalog {
    /// Tensor `number` alone, with what decoding it takes and nothing else.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    pub(crate) fn project(&self, number: usize) -> Self {
        Self {
            contents: self.contents.project(number),
            tensors: [Tensor {
                alias_of: None,
                ..self.tensors[number].clone()
            }]
            .into(),
            metadata: BTreeMap::new(),
            by_name: BTreeMap::new(),
            original_header: None,
            ..*self
        }
    }
}

impl Contents {
    fn project(&self, number: usize) -> Self {
        match self {
            Self::Safetensors => Self::Safetensors,
            // Tables are for rows; a tensor as a whole does without.
            Self::Zstn(integrity, _) => {
                let integrity = integrity.as_ref().map(|all| all.project(number));
                Self::Zstn(integrity, Default::default())
            }
            Self::Delta(delta) => Self::Delta(delta.project(number)),
            #[cfg(feature = "ztensor")]
            Self::ZTensor(tensors) => {
                let tensor = tensors[number].clone();
                Self::ZTensor([tensor.without_fields()].into())
            }
            #[cfg(feature = "gauss")]
            Self::Gauss(tensors) => Self::Gauss([tensors[number].clone()].into()),
        }
    }
}
