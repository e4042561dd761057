//! Projects a catalog onto one of its tensors.

use alloc::collections::BTreeMap;

use super::{Contents, FileCatalog, FileTensor};

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
            original_header: None,
            ..*self
        }
    }
}

impl Contents {
    fn project(&self, number: usize) -> Self {
        match self {
            Self::Safetensors => Self::Safetensors,
            // Block tables serve reading rows; decoding a whole tensor does not
            // need them.
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
