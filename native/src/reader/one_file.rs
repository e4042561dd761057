//! A single file of a model in several files, and the metadata of the files that packed
//! files restore.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::external::Beside;
use super::{Files, Reader};
use crate::source::parallel::{self, READS_AT_ONCE};
use crate::source::{FileId, Source};
use crate::{Error, Result};

impl Reader {
    /// Returns the metadata of the model like [`Reader::metadata`]. A packed file whose
    /// original is not a safetensors file contributes the metadata of that original; it
    /// contributes none if it was packed as bytes, or is a delta without its base.
    ///
    /// # Errors
    /// The errors of reading packed files.
    pub fn original_metadata(&self) -> Result<BTreeMap<String, String>> {
        let files = self.model.files();
        if files.iter().all(|file| file.original_kind().is_none()) {
            return Ok(self.metadata().clone());
        }
        let at_once = match self.all_sources().any(Source::is_remote) {
            true => READS_AT_ONCE,
            false => 1,
        };
        let of_files = parallel::run(files.len(), at_once, |number| {
            let file = &files[number];
            let original = match file.original_kind() {
                Some(_) => self.only(number)?.readable_original()?,
                None => return Ok(file.metadata().clone()),
            };
            Ok(original.map_or_else(BTreeMap::new, |original| original.metadata().clone()))
        })?;
        // Of equal keys, the first file has the one that counts.
        Ok(of_files.into_iter().rev().flatten().collect())
    }

    /// Returns a reader of file `number` alone. It has the base of this reader only if the
    /// model has no other file.
    fn only(&self, number: usize) -> Result<Self> {
        let files = self.model.files();
        if files.len() == 1 {
            return Ok(self.clone());
        }
        let source = OneFile::new(self.clone(), number);
        Ok(Self {
            model: Arc::new(self.model_of(vec![files[number].clone()])?),
            files: Arc::new(Files {
                name: source.name().into(),
                sources: vec![Box::new(source)],
                data_shards: Vec::new(),
                packed: None,
                merged: Vec::new(),
                beside: Beside::default(),
            }),
            engine: self.engine.clone(),
            base: None,
            bands: Arc::default(),
        })
    }
}

/// One of the files of a reader, which stay open as long as this source.
pub(super) struct OneFile {
    reader: Reader,
    number: usize,
}

impl OneFile {
    /// Returns file `number` of `reader`, which must have such a file.
    pub(super) fn new(reader: Reader, number: usize) -> Self {
        Self { reader, number }
    }

    fn source(&self) -> &dyn Source {
        &*self.reader.sources()[self.number]
    }
}

impl Source for OneFile {
    fn name(&self) -> &str {
        self.source().name()
    }

    fn len_bytes(&self) -> u64 {
        self.source().len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        self.source().read(range)
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.source().read_into(start, out)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.source().read_ranges(ranges)
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.source().read_compared(ranges)
    }

    fn other_version(&self) -> Option<Error> {
        self.source().other_version()
    }

    fn is_remote(&self) -> bool {
        self.source().is_remote()
    }

    fn is_one_version(&self) -> bool {
        self.source().is_one_version()
    }

    fn file_ids(&self) -> &[FileId] {
        self.source().file_ids()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.source().check_unchanged()
    }
}
