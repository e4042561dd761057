//! Opens the file that a packed file restores like `original.rs`, without blocking the
//! thread that polls. The bytes of that file are decoded on threads for blocking work.

use std::sync::Arc;

use zstn_core::catalog::FileCatalog;
use zstn_core::model::Model;

use super::async_reader::{AsyncReader, Files};
use super::external::Beside;
use super::one_file::OneFile;
use super::{Reader, check_takes_base};
use crate::delta::{check_chain, is_base_computed};
use crate::source::{AsyncSource, BlockingSource, blocking, on_thread};
use crate::{Error, Result};

impl AsyncReader {
    /// Attaches the base of a delta, like
    /// [`Reader::with_base`](crate::Reader::with_base).
    ///
    /// # Errors
    /// A model that takes no base; a base that does not match; the errors of reading.
    pub async fn with_base(self, base: Self) -> Result<Self> {
        self.attach_bases(vec![base])?.with_all_tensors().await
    }

    /// Opens the file that a packed file restores, like
    /// [`Reader::original`](crate::Reader::original).
    ///
    /// # Errors
    /// The errors of [`Reader::original`](crate::Reader::original).
    pub async fn original(&self) -> Result<Option<Self>> {
        let reader = self.blocking();
        let original = on_thread(move || reader.original()).await?;
        Ok(original.map(|original| self.around(&original)))
    }

    /// Attaches the base of a delta, whose tensors remain the stored ones.
    pub(super) fn attach_base(mut self, base: Self) -> Result<Self> {
        check_takes_base(&self)?;
        let bases = std::iter::successors(Some(&base), |base| base.base());
        check_chain(&bases.map(Self::name).collect::<Vec<_>>())?;
        let base = base.into_base_of(&self.model)?;
        Arc::make_mut(&mut self.model)
            .attach_base(&base.model)
            .map_err(Error::place(&self.files.name))?;
        self.base = Some(Arc::new(base));
        Ok(self)
    }

    /// Attaches the checkpoints that this delta was made against, like
    /// `Reader::attach_bases`.
    pub(super) fn attach_bases(self, mut bases: Vec<Self>) -> Result<Self> {
        let base = match is_base_computed(&self.model) {
            true => {
                let sources = bases.iter().map(Self::blocking).collect();
                self.around(&self.blocking().mixed_base(sources)?)
            }
            false => bases.remove(0),
        };
        self.attach_base(base)
    }

    /// Returns a reader of the tensors that `delta` refers to, like `Reader::into_base_of`.
    fn into_base_of(self, delta: &Model) -> Result<Self> {
        let base = self.blocking().into_base_of(delta)?;
        if Arc::ptr_eq(&base.model, &self.model) {
            return Ok(self);
        }
        if base.packed().is_some() {
            return Ok(self.around(&base));
        }
        Ok(Self {
            model: base.model,
            base: None,
            ..self
        })
    }

    /// Returns the original if this reader does not list all of its tensors, otherwise
    /// this reader, like `Reader::with_all_tensors`.
    pub(super) async fn with_all_tensors(self) -> Result<Self> {
        let files = self.model.files();
        if files.iter().all(FileCatalog::is_original_complete) {
            return Ok(self);
        }
        let reader = self.blocking();
        let original = on_thread(move || reader.readable_original()).await?;
        Ok(match original {
            Some(original) => self.around(&original),
            None => self,
        })
    }

    /// Returns a reader of the same model, files and bases whose calls block.
    fn blocking(&self) -> Reader {
        let sources = self.files.sources.iter().map(blocking).collect();
        Reader {
            files: Arc::new(super::Files {
                name: self.files.name.clone(),
                sources,
                data_shards: Vec::new(),
                packed: None,
                merged: Vec::new(),
                beside: self.files.beside.clone(),
            }),
            model: Arc::clone(&self.model),
            engine: self.engine.clone(),
            base: self.base.as_ref().map(|base| Arc::new(base.blocking())),
            bands: Arc::default(),
        }
    }

    /// Returns a reader of the same tensors as `restored`, whose bytes are computed from
    /// files of this reader or its bases.
    fn around(&self, restored: &Reader) -> Self {
        let source = |number| -> Arc<dyn AsyncSource> {
            Arc::new(BlockingSource::new(OneFile::new(restored.clone(), number)))
        };
        Self {
            files: Arc::new(Files {
                name: restored.name().into(),
                sources: (0..restored.sources().len()).map(source).collect(),
                beside: Beside::default(),
            }),
            model: Arc::clone(&restored.model),
            base: None,
            ..self.clone()
        }
    }
}
