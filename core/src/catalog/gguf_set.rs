//! Models in several GGUF files: the names of the files, and the checks that they belong
//! together (docs/formats/gguf.md 6).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{FileCatalog, FileKind, GgufSetName};
use crate::{Error, Result, Rule};

/// The keys of the metadata that state the place of a file among the files of a model,
/// the number of files, and the number of tensors in all of them.
const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

impl FileCatalog {
    /// Returns the names of the other files of the model, in order, if this file, which
    /// is called `name`, is the first of several GGUF files (docs/formats/gguf.md 6).
    /// Returns none for any other file.
    #[must_use]
    pub fn further_gguf_files(&self, name: &str) -> Vec<String> {
        let name = GgufSetName::parse(name).filter(|name| name.is_first());
        match name.filter(|name| self.is_gguf_part(*name)) {
            Some(name) => name.others().collect(),
            None => Vec::new(),
        }
    }

    /// Checks that this file, which is called `name`, is the file of a model that its
    /// name states, and returns the number of its tensors.
    ///
    /// # Errors
    /// [`Rule::GgufSplit`] for another file.
    pub fn check_gguf_part(&self, name: &str) -> Result<u64> {
        let stated = GgufSetName::parse(name);
        if stated.is_some_and(|stated| self.is_gguf_part(stated)) {
            return Ok(self.tensors().len() as u64);
        }
        let found = match (self.gguf_kind(), self.gguf_place()) {
            (None, _) => format!("a file of the format {}", self.kind().name()),
            (_, None) => format!("a model in one file, without `{NUMBER_KEY}`"),
            (_, Some((number, count))) => {
                format!("file {} of {count}", number.saturating_add(1))
            }
        };
        let detail = format!(
            "the name of the file states that it is one of several GGUF files of a model, and it \
             is {found}; get the files of the model again"
        );
        Err(Error::malformed(Rule::GgufSplit, detail))
    }

    /// Checks that all files of a model together have as many tensors as this one, the
    /// first, states. They have `tensors`.
    ///
    /// # Errors
    /// [`Rule::GgufSplit`] if the numbers differ.
    pub fn check_gguf_total(&self, tensors: u64) -> Result<()> {
        match self.gguf_number(TENSORS_KEY) {
            Some(stated) if stated != tensors => {
                let detail = format!(
                    "`{TENSORS_KEY}` is {stated}, and the files of the model have {tensors} \
                     tensors; get them again"
                );
                Err(Error::malformed(Rule::GgufSplit, detail))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether this file is the one that its `name` states. The metadata of a
    /// packed file are in the file that it restores, so its name alone decides, unless
    /// they have been added.
    fn is_gguf_part(&self, name: GgufSetName) -> bool {
        let expected = (u64::from(name.number()) - 1, u64::from(name.count()));
        match (self.gguf_kind(), self.gguf_place()) {
            (None, _) => false,
            (_, Some(place)) => place == expected,
            (Some(kind), None) => kind != FileKind::Gguf,
        }
    }

    /// Returns the format of the file if it is a GGUF file, or a packed one.
    fn gguf_kind(&self) -> Option<FileKind> {
        #[cfg(feature = "virtual-headers")]
        let is_packed = self.original_kind() == Some(FileKind::Gguf.name());
        #[cfg(not(feature = "virtual-headers"))]
        let is_packed = false;
        let kind = self.kind();
        (is_packed || kind == FileKind::Gguf).then_some(kind)
    }

    /// Returns the number of the file among those of its model, from 0, and their
    /// number, if the metadata state both.
    fn gguf_place(&self) -> Option<(u64, u64)> {
        self.gguf_number(NUMBER_KEY)
            .zip(self.gguf_number(COUNT_KEY))
    }

    fn gguf_number(&self, key: &str) -> Option<u64> {
        self.metadata().get(key)?.parse().ok()
    }
}
