//! Opens a Keras model: a zip archive in which a file of HDF5 with the weights is stored.
//! Its directory is read like that of other archives; then the file of HDF5 is opened
//! inside of the archive.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

pub(super) use super::zip::FormatOpener;

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, StoredTensor};
use super::inner_file::InnerFile;
use super::range_plan::RangePlan;
use super::zip::{Wanted, data};
use super::{FileCatalog, FileTensor, hdf5};
use crate::checksum::agrees;
use crate::container::foreign::zip::{Archive, Member, checksum_after};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::limits::{HEAD_LEN_BYTES, TEXT_LEN_BYTES};
use crate::{Error, Result, Rule};

/// The name of the member with the weights.
const WEIGHTS: &str = "model.weights.h5";

/// The names of the members that are metadata.
const TEXTS: [&str; 2] = ["config.json", "metadata.json"];

/// The number of bytes that are fetched for the extra fields of the weights.
const EXTRA_LEN_BYTES: u64 = 64;

/// The members of an archive that describe a model.
#[derive(Debug, Clone)]
pub(super) struct Members {
    weights: usize,
    /// The CRC-32 of the weights.
    crc: u32,
    /// The range of the weights in the file, once their local header has been fetched.
    range: Option<Range<u64>>,
    texts: Vec<usize>,
    metadata: BTreeMap<String, String>,
    /// The weights, once all other members have been fetched.
    file: Option<Box<InnerFile<hdf5::FormatOpener>>>,
}

impl Members {
    /// Finds the weights of a model; `None` if the archive has none.
    ///
    /// # Errors
    /// [`Rule::KerasWeights`] if they are compressed.
    pub(super) fn find(archive: &Archive) -> Result<Option<Self>> {
        let find = |name| -> Result<Option<(usize, &Member)>> {
            let number = archive.find(name)?;
            Ok(number.and_then(|number| Some((number, archive.members.get(number)?))))
        };
        let Some((weights, member)) = find(WEIGHTS)? else {
            return Ok(None);
        };
        let packing = member.packing.as_ref();
        let packing = packing.map_err(|error| error.clone().at(member.local))?;
        if packing.is_inflated() {
            let detail = "the weights of this Keras model are compressed in its archive. Unpack \
                          `model.weights.h5` and open that, or store it without compression";
            return Err(Error::malformed(Rule::KerasWeights, detail).at(member.local));
        }
        let mut texts = Vec::new();
        for name in TEXTS {
            if let Ok(Some((number, text))) = find(name)
                && text.len_bytes.max(text.stored_len_bytes) < TEXT_LEN_BYTES
            {
                texts.push(number);
            }
        }
        Ok(Some(Self {
            weights,
            crc: member.crc,
            range: None,
            texts,
            metadata: BTreeMap::new(),
            file: None,
        }))
    }

    /// Returns the requests for the beginning of the weights, and for the metadata.
    pub(super) fn wanted(&self, archive: &Archive) -> Vec<Wanted> {
        let member = |number: usize| archive.members.get(number);
        let texts = self.texts.iter().filter_map(|&number| {
            let text = member(number)?;
            Some(Wanted::whole(number, text))
        });
        let weights = member(self.weights)
            .map(|member| Wanted::new(self.weights, member, EXTRA_LEN_BYTES + HEAD_LEN_BYTES));
        texts.chain(weights).collect()
    }

    /// Uses the bytes of a request.
    pub(super) fn supply(
        &mut self,
        archive: &Archive,
        wanted: &Wanted,
        bytes: &[u8],
    ) -> Result<()> {
        let Some(member) = archive.members.get(wanted.number) else {
            return Ok(());
        };
        let found = data(member, wanted, bytes);
        if wanted.number == self.weights {
            self.range = Some(found?.1);
            return Ok(());
        }
        // Metadata that cannot be read do not hide the tensors.
        if let (Ok((stored, _)), Ok(packing)) = (found, &member.packing)
            && let Ok(text) = packing.unpack(stored)
            && let Ok(text) = core::str::from_utf8(&text)
        {
            self.metadata.insert(member.name.clone(), text.to_string());
        }
        Ok(())
    }

    /// Starts to open the weights, once their place is known.
    pub(super) fn begin(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if let (None, Some(range)) = (&self.file, &self.range) {
            self.file = Some(InnerFile::open(range.clone(), fetched)?.into());
        }
        Ok(())
    }

    /// Returns the weights that are being opened.
    pub(super) fn file(&mut self) -> Option<&mut InnerFile<hdf5::FormatOpener>> {
        self.file.as_deref_mut()
    }

    /// Returns whether the weights are being opened.
    pub(super) fn is_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the ranges that are missing before all datasets of the weights are listed.
    pub(super) fn needs(&self) -> Result<Vec<Range<u64>>> {
        let file = self.file.as_deref();
        file.map_or(Ok(Vec::new()), InnerFile::needs)
    }

    pub(super) fn finish<E: Engine>(
        self,
        fetched: &FetchedRanges,
        engine: &E,
    ) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let weights = self.range.ok_or_else(missing)?;
        let file = self.file.ok_or_else(missing)?;
        let mut catalog = file.finish(fetched.len_bytes(), engine)?;
        let AnyContents::Hdf5(datasets) = catalog.contents else {
            return Err(missing());
        };
        catalog.contents = AnyContents::Keras(FormatContents {
            datasets,
            weights,
            crc: self.crc,
        });
        catalog.metadata.extend(self.metadata);
        Ok(catalog)
    }
}

/// The storage of each dataset, and the member that contains all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents {
    datasets: hdf5::FormatContents,
    weights: Range<u64>,
    crc: u32,
}

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        self.datasets.decode(engine, stored)
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        self.datasets.plan(tensor, number, span, table)
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        self.datasets.place(tensor, number)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self {
            datasets: self.datasets.project(number),
            weights: self.weights.clone(),
            crc: self.crc,
        }
    }
}

/// The comparison of a range of a file with the CRC-32 that the file states for it.
#[derive(Debug, Clone)]
pub struct RangeChecksum {
    range: Range<u64>,
    expected: u32,
    found: u32,
}

impl RangeChecksum {
    /// Returns the range of the file that is compared.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Adds the next bytes of the range.
    pub fn update(&mut self, bytes: &[u8]) {
        self.found = checksum_after(self.found, bytes);
    }

    /// Compares the checksums, after all bytes of the range have been added.
    ///
    /// # Errors
    /// [`Rule::ZipChecksum`] if they differ.
    pub fn finish(self) -> Result<()> {
        if agrees(self.expected, self.found) {
            return Ok(());
        }
        let detail = "the weights of the model differ from their checksum. Get the file again";
        Err(Error::malformed(Rule::ZipChecksum, detail).at(self.range.start))
    }
}

impl FileCatalog {
    /// Returns the comparison of the weights of a Keras model with their CRC-32, which no
    /// read of a tensor compares; `None` for files of other formats.
    #[must_use]
    pub fn weights_checksum(&self) -> Option<RangeChecksum> {
        match &self.contents {
            AnyContents::Keras(contents) => Some(RangeChecksum {
                range: contents.weights.clone(),
                expected: contents.crc,
                found: 0,
            }),
            _ => None,
        }
    }
}
