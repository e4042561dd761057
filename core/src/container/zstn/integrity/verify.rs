//! Compares a file with its integrity section (docs/formats/zstn-integrity.md
//! 4).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use sha2::{Digest as _, Sha256};

use super::statistics::{StatisticsRecord, StoredStatistics};
use super::{FileDigest, Section};
use crate::checksum::{agrees, checksum};
use crate::container::zstn::index::unexplained;
use crate::container::zstn::options::hex;
use crate::container::zstn::{ContainerIndex, ContainerPrefix, RecordContent};
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

/// The checks made when tensors of a ZSTN file are read. Stored bytes are
/// compared with their checksum in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Verify {
    /// Compares only the checksum of the stored bytes, which detects accidental
    /// damage in transit or on disk. In a file without these checksums, the
    /// digests of the decoded bytes are compared instead.
    Stored,
    /// Compares the digest of the decoded bytes as well, which also detects a
    /// frame that was replaced together with its checksum, and errors of the
    /// packer and the decoder.
    #[default]
    Full,
}

/// An integrity section that has been matched with the index of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrity {
    /// True if the section has checksums of the header and the index.
    #[serde(skip)]
    has_head: bool,
    file: Option<FileDigest>,
    frames: Option<Vec<u64>>,
    tensors: Option<Vec<Digest>>,
    /// The ranges of the block tables in the file.
    #[serde(skip)]
    tables: Option<Vec<Range<u64>>>,
    #[serde(skip)]
    statistics: Option<StatisticsRecord>,
    /// For each record of the index, the number of its entry in the section. An
    /// alias has the entry of its target.
    entries: Vec<usize>,
    verify: Verify,
}

impl Section {
    /// Compares the checksums of the index and of `prefix_bytes`, the bytes of
    /// the file before its frames.
    pub(in crate::container::zstn) fn check_head(
        &self,
        prefix_bytes: &[u8],
        index_bytes: &[u8],
    ) -> Result<()> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        for (expected, bytes, what) in [
            (head.prefix, prefix_bytes, "header"),
            (head.index, index_bytes, "index"),
        ] {
            if !agrees(expected, checksum([bytes])) {
                return Err(Error::malformed(
                    Rule::ZstnHeadChecksum,
                    format!(
                        "the {what} does not have the checksum in the file: it is damaged, get \
                         the file again"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Matches the section with the index; fails if it describes another number
    /// of frames or another original length. `after_frames` is the range
    /// between the last frame and the index, which the statistics of bands and
    /// the block tables must fill.
    pub(in crate::container::zstn) fn attach(
        self,
        prefix: &ContainerPrefix,
        index: &ContainerIndex,
        after_frames: Range<u64>,
    ) -> Result<Integrity> {
        let mut frame_count = 0;
        let numbers: Vec<usize> = index
            .records()
            .iter()
            .map(|record| {
                let number = frame_count;
                frame_count += usize::from(matches!(record.content, RecordContent::Frame(_)));
                number
            })
            .collect();
        let entries = (0..numbers.len()).map(|record| numbers[index.frame(record).0]);
        let counts = [
            self.frames.as_ref().map(Vec::len),
            self.tensors.as_ref().map(Vec::len),
            self.tables.as_ref().map(Vec::len),
        ];
        if let Some(count) = counts
            .into_iter()
            .flatten()
            .find(|&count| count != frame_count)
        {
            return Err(Error::malformed(
                Rule::ZstnIntegrity,
                format!(
                    "the integrity section describes {count} frames, the index of {frame_count}"
                ),
            ));
        }
        let original = prefix.original_len_bytes();
        if let Some(file) = self.file.as_ref().filter(|f| f.len_bytes != original) {
            return Err(Error::malformed(
                Rule::ZstnFileDigest,
                format!(
                    "the file restores {original} bytes, but was packed from {}",
                    file.len_bytes
                ),
            ));
        }
        let tables = self
            .tables
            .map(|lens| table_ranges(&lens, after_frames.clone()));
        let tables = tables.transpose()?;
        let first_table = tables
            .as_ref()
            .and_then(|tables| Some(tables.first()?.start));
        let bands = after_frames.start..first_table.unwrap_or(after_frames.end);
        if self.statistics.is_none() && !bands.is_empty() {
            return Err(unexplained(bands));
        }
        Ok(Integrity {
            has_head: self.head.is_some(),
            tables,
            statistics: self
                .statistics
                .map(|bytes| StatisticsRecord { bytes, bands }),
            file: self.file,
            frames: self.frames,
            tensors: self.tensors,
            entries: entries.collect(),
            verify: Verify::Full,
        })
    }
}

/// Returns the ranges of the block tables, which end at the start of the index
/// and have no gaps between them.
fn table_ranges(lens_bytes: &[u32], available: Range<u64>) -> Result<Vec<Range<u64>>> {
    let total: u64 = lens_bytes.iter().map(|&len| u64::from(len)).sum();
    let Some(mut end) = available
        .end
        .checked_sub(total)
        .filter(|&s| s >= available.start)
    else {
        return Err(Error::malformed(
            Rule::ZstnIntegrity,
            format!("block tables of {total} bytes do not fit in front of the index"),
        ));
    };
    let ranges = lens_bytes.iter().map(|&len| {
        let start = end;
        end += u64::from(len);
        start..end
    });
    Ok(ranges.collect())
}

impl Integrity {
    /// Returns the range in the file of the block table of record `number`, if
    /// it has one.
    #[must_use]
    pub fn table(&self, number: usize) -> Option<Range<u64>> {
        let range = self.tables.as_ref()?[*self.entries.get(number)?].clone();
        (!range.is_empty()).then_some(range)
    }

    /// Returns the offset of the first block table, if the file has tables.
    #[must_use]
    pub(crate) fn tables_start(&self) -> Option<u64> {
        Some(self.tables.as_ref()?.first()?.start)
    }

    /// Returns the unparsed record of the statistics, and the offset in the
    /// file at which the bands of the last frame end; `None` if there is no
    /// record.
    #[must_use]
    pub fn statistics_bytes(&self) -> Option<(&[u8], u64)> {
        let record = self.statistics.as_ref()?;
        Some((&record.bytes, record.bands.end))
    }

    /// Returns the statistics of every record, given the dtypes and shapes of
    /// the tensors; `None` if the file has none. An alias shares the statistics
    /// of its target if dtype and shape are the same, and has none otherwise.
    ///
    /// # Errors
    /// [`Rule::ZstnStatistics`] for a malformed record.
    pub fn statistics(
        &self,
        tensors: &[(Dtype, &[u64])],
    ) -> Result<Option<Vec<Option<StoredStatistics>>>> {
        let Some(record) = &self.statistics else {
            return Ok(None);
        };
        let mut owners = Vec::new();
        for (&entry, &tensor) in self.entries.iter().zip(tensors) {
            if entry == owners.len() {
                owners.push(tensor);
            }
        }
        let frames = record.read(owners.iter().copied())?;
        let of_record = |(&entry, tensor): (&usize, _)| {
            let is_same = owners.get(entry) == Some(tensor);
            frames.get(entry).filter(|_| is_same)?.clone()
        };
        let of_records = self.entries.iter().zip(tensors).map(of_record);
        Ok(Some(of_records.collect()))
    }

    /// Returns the SHA-256 of the original file, if the section has it and it
    /// is not a mere claim. Git LFS and model hubs identify files by it.
    #[must_use]
    pub fn original_sha256(&self) -> Option<&[u8; 32]> {
        let file = self.file.as_ref().filter(|file| !file.is_claimed);
        file.map(|file| &file.sha256)
    }

    /// Returns the SHA-256 that the packer was given and did not compare with
    /// the file, if there is one. Restoring the whole file compares it.
    #[must_use]
    pub fn claimed_sha256(&self) -> Option<&[u8; 32]> {
        let file = self.file.as_ref().filter(|file| file.is_claimed);
        file.map(|file| &file.sha256)
    }

    /// Returns the digest of the decoded bytes of record `number`, if the
    /// section has it.
    #[must_use]
    pub fn tensor_digest(&self, number: usize) -> Option<&Digest> {
        let entry = self.entries.get(number)?;
        self.tensors.as_ref()?.get(*entry)
    }

    /// Returns whether the section has checksums of all frames and digests of
    /// all tensors.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.frames.is_some() && self.tensors.is_some()
    }

    /// Returns whether the section has checksums of the header, the index and
    /// every stored frame. They have 64 bits or more, and the section has a
    /// checksum of its own.
    #[must_use]
    pub(crate) fn covers_file(&self) -> bool {
        self.has_head && self.frames.is_some()
    }

    /// Returns whether damage can only be found by the digests of decoded bytes.
    #[cfg(feature = "plan")]
    pub(crate) fn has_only_digests(&self) -> bool {
        self.frames.is_none() && self.tensors.is_some()
    }

    /// Returns the number of the entry that describes the frame of record
    /// `number`.
    fn entry(&self, number: usize) -> Result<usize> {
        let entry = self.entries.get(number).copied();
        entry.ok_or_else(|| Error::no_such("record", number, self.entries.len()))
    }

    /// Returns a section with the entry of record `number` only, as record 0.
    ///
    /// # Panics
    /// If the number is out of bounds.
    #[cfg(feature = "decode-task")]
    pub(crate) fn project(&self, number: usize) -> Self {
        let entry = self.entries[number];
        Self {
            has_head: self.has_head,
            file: None,
            frames: self.frames.as_ref().map(|all| [all[entry]].into()),
            tensors: self.tensors.as_ref().map(|all| [all[entry]].into()),
            tables: None,
            statistics: None,
            entries: [0].into(),
            verify: self.verify,
        }
    }

    /// Returns a section that has only the checksum of one frame, the frame of
    /// record 0.
    #[cfg(feature = "decode-task")]
    pub(crate) fn of_checksum(checksum: u64) -> Self {
        Self {
            has_head: false,
            file: None,
            frames: Some([checksum].into()),
            tensors: None,
            tables: None,
            statistics: None,
            entries: [0].into(),
            verify: Verify::Stored,
        }
    }

    /// Returns the checksum of the stored frame of record `number`, if the
    /// section has it.
    #[cfg(feature = "decode-task")]
    pub(crate) fn frame_checksum(&self, number: usize) -> Option<u64> {
        let entry = self.entries.get(number)?;
        self.frames.as_ref()?.get(*entry).copied()
    }

    /// Compares the checksum of the stored frame of record `number`, which may
    /// be an alias.
    pub fn check_stored(&self, number: usize, stored: &[u8]) -> Result<()> {
        let entry = self.entry(number)?;
        let frames = self.frames.as_ref();
        match frames.and_then(|frames| frames.get(entry)) {
            Some(expected) if !agrees(*expected, checksum([stored])) => Err(Error::malformed(
                Rule::ZstnFrameChecksum,
                "the stored bytes do not have the checksum in the file: they are damaged, get \
                 the file again",
            )
            .at(0)),
            _ => Ok(()),
        }
    }

    /// Sets the checks that reading a tensor includes.
    pub(crate) fn set_verify(&mut self, verify: Verify) {
        self.verify = verify;
    }

    /// Returns whether this build cannot check the tensors of this file with
    /// `verify`, because it omits the code for digests of decoded bytes.
    /// [`Verify::Full`] requires it, as does a file without checksums of stored
    /// bytes.
    #[must_use]
    pub(crate) fn is_left_out(&self, verify: Verify) -> bool {
        cfg!(not(feature = "tensor-digests")) && self.requires_digests(verify)
    }

    fn requires_digests(&self, verify: Verify) -> bool {
        self.tensors.is_some() && (verify == Verify::Full || self.frames.is_none())
    }

    /// Returns whether reads have to compare digests of decoded bytes, also if this
    /// build omits the code.
    #[cfg(feature = "decode-task")]
    pub(crate) fn wants_digests(&self) -> bool {
        self.requires_digests(self.verify)
    }

    /// Returns whether the digests of decoded bytes are compared. They are not if
    /// the section has none, if only stored bytes are to be compared
    /// ([`Verify::Stored`]), or if this build omits the code.
    pub(crate) fn compares_digests(&self) -> bool {
        cfg!(feature = "tensor-digests") && self.requires_digests(self.verify)
    }

    /// Compares `found`, the digest of the decoded bytes of record `number`. It is
    /// `None` if [`Integrity::compares_digests`] returns false.
    pub(crate) fn check_tensor(&self, number: usize, found: Option<Digest>) -> Result<()> {
        let entry = self.entry(number)?;
        if self.is_left_out(self.verify) {
            let detail = "this build of the reader does not compare digests";
            return Err(Error::unsupported(detail));
        }
        match (&self.tensors, found) {
            (Some(digests), Some(found)) if digests[entry] != found => Err(Error::malformed(
                Rule::ZstnTensorDigest,
                "the restored bytes do not match their digest: the file is damaged, get it again",
            )),
            _ => Ok(()),
        }
    }

    /// Compares the digest of the restored file, given as consecutive pieces.
    pub fn check_file<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        match self.file_check() {
            Some(check) => pieces.into_iter().fold(check, FileCheck::with).finish(),
            None => Ok(()),
        }
    }

    /// Starts the comparison of the restored file, if the section has its
    /// digest.
    #[must_use]
    pub fn file_check(&self) -> Option<FileCheck<'_>> {
        self.file.as_ref().map(|file| FileCheck {
            sha256: Sha256::new(),
            expected: file,
        })
    }
}

/// Hashes a restored file and compares its digest with the section.
#[derive(Debug, Clone)]
pub struct FileCheck<'a> {
    sha256: Sha256,
    expected: &'a FileDigest,
}

impl FileCheck<'_> {
    /// Adds the next bytes of the file, starting with its first.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.sha256.update(bytes);
        self
    }

    /// Compares the digest of the added bytes with the one in the section.
    ///
    /// # Errors
    /// [`Rule::ZstnFileDigest`] if the digests differ.
    pub fn finish(self) -> Result<()> {
        self.digest().map(drop)
    }

    /// Compares like [`FileCheck::finish`], and returns the SHA-256 of the added bytes.
    ///
    /// # Errors
    /// [`Rule::ZstnFileDigest`] if the digests differ.
    pub fn digest(self) -> Result<[u8; 32]> {
        let found: [u8; 32] = self.sha256.finalize().into();
        let expected = &self.expected.sha256;
        if found == *expected {
            return Ok(found);
        }
        let (found, expected) = (hex(&found), hex(expected));
        let detail = match self.expected.is_claimed {
            false => format!(
                "the restored file has the SHA-256 {found}, but the original had {expected}: the \
                 packed file is damaged, get it again"
            ),
            true => format!(
                "the restored file has the SHA-256 {found}, not {expected}, which was given when \
                 it was packed and not compared then: another file was packed, or this is not \
                 its SHA-256; pack the right file again, with its own SHA-256 or without one"
            ),
        };
        Err(Error::malformed(Rule::ZstnFileDigest, detail))
    }
}
