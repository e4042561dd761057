//! Reads the statistics of tensors that were stored when a file was packed
//! (docs/formats/zstn-integrity.md 7).

use zstn_core::container::zstn::integrity::StoredStatistics;
use zstn_core::model;
use zstn_core::statistics::{Figures, Statistics};

use super::Reader;
use super::state_machine::Opened as _;
use crate::{Error, Result};

impl Reader {
    /// Returns the summary statistics of every tensor, in the order of
    /// [`Reader::tensors`], without reading any bytes. The entry is `None` for files in
    /// other formats than ZSTN or packed without statistics, for tensors without
    /// elements, for weights that are stored in several parts, and for the dtypes `F4`,
    /// `F6_E2M3`, `F6_E3M2` and `C64`.
    ///
    /// # Errors
    /// Malformed statistics ([`Rule::ZstnStatistics`](zstn_core::Rule)).
    pub fn summaries(&self) -> Result<Vec<Option<Figures>>> {
        let stored = self.stored_statistics()?;
        let tensors = self.tensors().iter();
        Ok(tensors
            .map(|tensor| stored_of(&stored, tensor).map(|stored| stored.summary))
            .collect())
    }

    /// Returns the statistics of the tensor called `name`: its summary, and the figures
    /// of each of its bands of rows. `None` if it has none, as for
    /// [`Reader::summaries`].
    ///
    /// # Errors
    /// A read that fails, and statistics that are malformed or damaged.
    pub fn statistics(&self, name: &str) -> Result<Option<Statistics>> {
        let tensor = &self.tensors()[self.number(name)?];
        let stored = self.stored_statistics()?;
        let (Some(found), Some(part)) = (stored_of(&stored, tensor), tensor.parts.first()) else {
            return Ok(None);
        };
        let source = &self.sources()[part.file];
        let bytes = match found.range.is_empty() {
            true => Vec::new(),
            false => source.read(found.range.clone())?.to_vec(),
        };
        source.check_unchanged()?;
        let refuse = Error::place(source.name());
        let bands = found.bands(&bytes);
        let bands = bands.map_err(|error| refuse(error.tensor(name)))?;
        Ok(Some(Statistics::new(
            found.summary,
            found.rows_per_band,
            bands,
        )))
    }

    /// Parses the statistics of every file; each list is indexed by tensor number.
    fn stored_statistics(&self) -> Result<Vec<Vec<Option<StoredStatistics>>>> {
        let files = self.model().files().iter().zip(self.sources());
        let read = files.map(|(file, source)| {
            let statistics = file.statistics().map_err(Error::place(source.name()))?;
            Ok(statistics.unwrap_or_default())
        });
        read.collect()
    }
}

/// Returns the statistics of a tensor, unless it is a weight in several parts.
fn stored_of<'a>(
    stored: &'a [Vec<Option<StoredStatistics>>],
    tensor: &model::TensorInfo,
) -> Option<&'a StoredStatistics> {
    match tensor.parts.as_slice() {
        [part] if tensor.weight().is_none() => stored[part.file].get(part.number)?.as_ref(),
        _ => None,
    }
}
