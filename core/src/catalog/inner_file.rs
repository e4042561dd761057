//! Opens a file that is stored in another one, such as a member of an archive. Its opener
//! reads it as a file of its own. The offsets that it requests and lists are shifted to the
//! file around it.

use alloc::vec::Vec;
use core::ops::Range;

use super::FileCatalog;
use super::file_opener::FetchedRanges;
use super::format::Opener;
use crate::engine::Engine;
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result};

/// A file that is being opened inside of another one.
#[derive(Debug, Clone)]
pub(super) struct InnerFile<O> {
    /// The range of the outer file that is the inner file.
    range: Range<u64>,
    /// The opener and the fetched bytes of the inner file, once its head is fetched.
    opened: Option<(O, FetchedRanges)>,
}

fn not_requested() -> Error {
    Error::invalid_input("these bytes were not requested")
}

impl<O: Opener> InnerFile<O> {
    /// Starts to open the file that fills `range` of another one. Bytes that have been
    /// fetched of the outer file are not requested again.
    pub fn open(range: Range<u64>, outer: &FetchedRanges) -> Result<Self> {
        let is_empty = range.is_empty();
        let mut file = Self {
            range,
            opened: None,
        };
        if is_empty {
            file.begin(Vec::new())?;
        }
        loop {
            let mut is_same = true;
            for need in file.needs()? {
                if let Some(bytes) = outer.part(need.clone()) {
                    file.supply(need.start, &bytes)?;
                    is_same = false;
                }
            }
            if is_same {
                return Ok(file);
            }
        }
    }

    /// Returns the range of the head in the outer file.
    fn head(&self) -> Range<u64> {
        let Range { start, end } = self.range;
        start..start + HEAD_LEN_BYTES.min(end - start)
    }

    /// Returns the ranges of the outer file that are missing.
    pub fn needs(&self) -> Result<Vec<Range<u64>>> {
        let start = self.range.start;
        let Some((opener, fetched)) = &self.opened else {
            return Ok([self.head()].into());
        };
        let needs = opener.needs(fetched).map_err(|error| error.within(start))?;
        let needs = needs.into_iter();
        Ok(needs
            .map(|need| start + need.start..start + need.end)
            .collect())
    }

    /// Adds the bytes of a range that [`InnerFile::needs`] has returned.
    pub fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let (start, head) = (self.range.start, self.head());
        let Some((opener, fetched)) = &mut self.opened else {
            let is_head = offset_bytes == start && bytes.len() as u64 == head.end - start;
            return match is_head {
                true => self.begin(bytes.to_vec()),
                false => Err(not_requested()),
            };
        };
        let offset = offset_bytes.checked_sub(start).ok_or_else(not_requested)?;
        let supplied = opener.supply(fetched, offset, bytes);
        let advanced = supplied.and_then(|()| opener.advance(fetched));
        advanced.map_err(|error| error.within(start))
    }

    /// Creates the opener from the head of the file.
    fn begin(&mut self, head: Vec<u8>) -> Result<()> {
        let Range { start, end } = self.range;
        let fetched = FetchedRanges::new(end - start, head);
        let mut opener = O::default();
        let advanced = opener.advance(&fetched);
        advanced.map_err(|error| error.within(start))?;
        self.opened = Some((opener, fetched));
        Ok(())
    }

    /// Returns the catalog of the tensors, with their places in an outer file of
    /// `outer_len_bytes`.
    pub fn finish<E: Engine>(self, outer_len_bytes: u64, engine: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let start = self.range.start;
        let (opener, fetched) = self.opened.ok_or_else(missing)?;
        let catalog = opener.finish(&fetched, engine);
        let mut catalog = catalog.map_err(|error| error.within(start))?;
        for tensor in &mut catalog.tensors {
            let Range { start: from, end } = tensor.stored;
            tensor.stored = start + from..start + end;
        }
        let errors = core::mem::take(&mut catalog.refused.errors).into_iter();
        catalog.refused.errors = errors.map(|error| error.within(start)).collect();
        catalog.len_bytes = outer_len_bytes;
        Ok(catalog)
    }
}
