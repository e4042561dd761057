//! The base of a delta: finds the file that a delta was made against, and the tensors that
//! it depends on.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::Model;
use crate::catalog::{FileCatalog, FileTensor};
use crate::{Error, Result};

/// The base that a delta was made against: one file of a model, or all files together.
struct Fitting<'b> {
    /// The number of the file.
    file: Option<usize>,
    catalog: Cow<'b, FileCatalog>,
}

impl Model {
    /// Returns the name of the base's tensor that tensor `number` depends on. It is the
    /// tensor's own name unless [`Model::attach_base`] has found another one. `None` if
    /// there is no such tensor.
    #[must_use]
    pub fn name_in_base(&self, number: usize) -> Option<&str> {
        let own = &self.tensors.get(number)?.name;
        Some(self.names_in_base.get(&number).unwrap_or(own))
    }

    /// Returns whether the model can only be opened together with a base.
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.files.iter().any(FileCatalog::needs_base)
    }

    /// Checks that `base` is the checkpoint that this delta was made against
    /// ([`FileCatalog::check_base`]). If the model has several files, every delta among
    /// them requires one matching file of the base, or all files of the base together
    /// ([`Model::joined`]).
    pub fn check_base(&self, base: &Self) -> Result<()> {
        self.base_files(base).map(drop)
    }

    /// Checks the base like [`Model::check_base`], and copies the digests that
    /// the base's files state for their tensors. Decoding then uses them
    /// instead of computing the digests, as long as the digest of the restored
    /// tensor matches; a wrong base is still refused.
    pub fn attach_base(&mut self, base: &Self) -> Result<()> {
        self.names_in_base.clear();
        for (number, fitting) in self.base_files(base)? {
            // The base's tensor of this name may be in another file than the
            // matching one. Its digest is then not used.
            let digest = |name: &String| {
                let part = base.tensors[*base.by_name.get(name)?].only_part()?;
                let is_meant = fitting.file.is_none_or(|file| part.file == file);
                let file = base.files.get(part.file).filter(|_| is_meant)?;
                file.tensor_digest(part.number)
            };
            let file = &mut self.files[number];
            let in_base = file.in_base(&fitting.catalog);
            let digests = in_base.iter().map(|found| digest(&(*found)?.name));
            let digests = digests.collect();
            file.keep_base_digests(digests);
            for (place, tensor) in self.tensors.iter().enumerate() {
                let part = tensor.only_part().filter(|part| part.file == number);
                let found = part.and_then(|part| in_base[part.number]);
                if let Some(found) = found.filter(|found| found.name != tensor.name) {
                    self.names_in_base.insert(place, found.name.clone());
                }
            }
        }
        Ok(())
    }

    /// Returns the number of each delta, with the base that matches it.
    fn base_files<'b>(&self, base: &'b Self) -> Result<Vec<(usize, Fitting<'b>)>> {
        if base.is_dense {
            return Err(Error::invalid_input(
                "the base of a delta has to be opened as it is stored",
            ));
        }
        if !self.needs_base() {
            return Err(Error::invalid_input(
                "the file is not a delta, so it takes no base",
            ));
        }
        let files = self.files.iter().enumerate();
        let deltas = files.filter(|(_, file)| file.needs_base());
        let fitting = deltas.map(|(number, file)| Ok((number, base.fitting(file)?)));
        fitting.collect()
    }

    /// Returns the number of the file that `delta` was made against, or `None` if it was
    /// made against all files of this model together ([`Model::joined`]). Only headers are
    /// compared.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::check_base`].
    pub fn base_of(&self, delta: &FileCatalog) -> Result<Option<usize>> {
        self.fitting(delta).map(|fitting| fitting.file)
    }

    fn fitting(&self, delta: &FileCatalog) -> Result<Fitting<'_>> {
        let mut refusal = None;
        for (number, catalog) in self.files.iter().enumerate() {
            match delta.check_base(catalog) {
                Ok(()) => {
                    return Ok(Fitting {
                        file: Some(number),
                        catalog: Cow::Borrowed(catalog),
                    });
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match refusal {
            Some(refusal) if self.files.len() == 1 => Err(refusal),
            _ => {
                let catalog = self.joined_catalog()?;
                delta.check_base(&catalog)?;
                Ok(Fitting {
                    file: None,
                    catalog: Cow::Owned(catalog),
                })
            }
        }
    }

    /// Returns the catalog of [`Model::joined`].
    fn joined_catalog(&self) -> Result<FileCatalog> {
        let mut end = 0u64;
        let tensors = self.by_name.values().map(|&number| {
            let tensor = &self.tensors[number];
            let start = end;
            end = end.saturating_add(tensor.len_bytes);
            FileTensor {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                span: start..end,
                stored: start..end,
                base: None,
                alias_of: None,
            }
        });
        let tensors = tensors.collect();
        FileCatalog::of_data(tensors, end)
    }
}
