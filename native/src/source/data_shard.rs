//! The other files of a zTensor file, which are opened when the first tensor in them is
//! read (docs/formats/ztensor.md 8.4).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zstn_core::catalog::FileCatalog;
use zstn_core::container::foreign::ztensor::Shard;

use super::open_location::Access;
use super::{FileId, HttpOptions, Location, Source};
use crate::{Error, Result};

const MAGIC_BYTES: u64 = 8;
/// The number of bytes that are read at once to compare a whole shard with its digest.
const PIECE_BYTES: u64 = 4 << 20;

/// A shard, which is opened by the first read.
pub(crate) struct DataShardSource {
    name: String,
    entry: Shard,
    /// `None` if the file that lists the shard was not opened by a path or an address.
    location: Option<Location>,
    http: HttpOptions,
    opened: OnceLock<Box<dyn Source>>,
}

/// Appends the catalogs of the other files in which `catalogs` list tensors, and returns
/// those files. `location` returns the location of the file with this number, if it has
/// one. Nothing is opened.
pub(crate) fn append(
    catalogs: &mut Vec<FileCatalog>,
    location: impl Fn(usize) -> Option<Location>,
    http: &HttpOptions,
) -> Vec<Arc<DataShardSource>> {
    let mut shards = Vec::new();
    for number in 0..catalogs.len() {
        for shard in catalogs[number].take_data_shards() {
            let location = location(number);
            shards.push(DataShardSource::new(location.as_ref(), shard.entry, http).into());
            catalogs.push(shard.catalog);
        }
    }
    shards
}

impl DataShardSource {
    /// Returns the shard `entry` of the file at `listed_by`. Nothing is opened.
    fn new(listed_by: Option<&Location>, entry: Shard, http: &HttpOptions) -> Self {
        let location = listed_by.and_then(|file| {
            let name = file.file_name()?;
            let stem = name.strip_suffix(".zt").unwrap_or(&name);
            file.sibling(&format!("{stem}-{}.zt", entry.name))
        });
        Self {
            name: match &location {
                Some(location) => location.to_string(),
                None => format!("shard {}", entry.name),
            },
            entry,
            location,
            http: http.clone(),
            opened: OnceLock::new(),
        }
    }

    /// Returns the file, which is opened and checked at the first call.
    ///
    /// # Errors
    /// A file that does not exist, cannot be read, or is not the listed one. The next
    /// call tries again.
    fn opened(&self) -> Result<&dyn Source> {
        if let Some(source) = self.opened.get() {
            return Ok(&**source);
        }
        let Some(location) = &self.location else {
            return Err(Error::Usage(format!(
                "tensors are stored in the shard `{}` of the file: open the file by its path or \
                 address, next to its shards",
                self.entry.name
            )));
        };
        // The magic at the start comes with the response that opens a remote file.
        let access = Access::of(location)?;
        let source = match access.open_ranged(MAGIC_BYTES, &self.http)? {
            Some(source) => source,
            None => access.open(&self.http)?,
        };
        let placed = Error::place(&self.name);
        self.entry.check_len(source.len_bytes()).map_err(&placed)?;
        let ends = source.read_ranges(&self.entry.ends())?;
        if let [head, tail] = &ends[..] {
            self.entry.check_ends(head, tail).map_err(&placed)?;
        }
        drop(ends);
        Ok(&**self.opened.get_or_init(|| source))
    }

    /// Compares the whole file with the digest that its model lists.
    ///
    /// # Errors
    /// A file with another digest; the errors of [`DataShardSource::opened`] and of
    /// `check`, which is called before each read.
    pub(crate) fn verify(&self, check: impl Fn() -> Result<()>) -> Result<()> {
        let source = self.opened()?;
        let len_bytes = source.len_bytes();
        let compared = self.entry.check_digest(|add| {
            let mut start = 0;
            while start < len_bytes {
                check()?;
                let end = len_bytes.min(start + PIECE_BYTES);
                add(&source.read(start..end)?);
                start = end;
            }
            Ok(())
        });
        compared.map_err(|error: Error| error.placed(&self.name))?;
        source.check_unchanged()
    }
}

impl Source for DataShardSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.entry.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        self.opened()?.read(range)
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.opened()?.read_into(start, out)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.opened()?.read_ranges(ranges)
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.opened()?.read_compared(ranges)
    }

    fn other_version(&self) -> Option<Error> {
        self.opened.get()?.other_version()
    }

    fn is_one_version(&self) -> bool {
        match self.opened.get() {
            Some(source) => source.is_one_version(),
            None => !self.is_remote(),
        }
    }

    fn is_remote(&self) -> bool {
        self.location.as_ref().is_some_and(Location::is_remote)
    }

    fn file_ids(&self) -> &[FileId] {
        // An output must not replace the shard, whether or not it has been read.
        let opened = if self.is_remote() {
            None
        } else {
            self.opened().ok()
        };
        opened.map_or(&[], |source| source.file_ids())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.opened
            .get()
            .map_or(Ok(()), |source| source.check_unchanged())
    }
}
