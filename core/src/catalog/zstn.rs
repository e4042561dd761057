//! Opens a ZSTN file, whose header is at the front and whose index is at the
//! end.
//!
//! The head states the length of the header. The index and the integrity
//! section are usually at most one and a half times as long as the header, plus
//! a few bytes: for each tensor they take the name and 79 bytes, or about 93
//! with statistics, while a header entry in its usual spelling takes the name
//! and at least 50 bytes. The rest of the header and both of them can therefore
//! be requested together. If the section contains a copy of the header, the
//! header itself is not requested.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::{RangePlan, Tables};
use super::virtual_tensors::Reading;
use super::{FileCatalog, FileTensor};
use crate::container::safetensors;
use crate::container::zstn::integrity::{self, Integrity, Section, StoredStatistics, Verify};
use crate::container::zstn::{
    CheckedFrame, ContainerFooter, ContainerLayout, ContainerPrefix, ContainerTail, FOOTER_BYTES,
    PREFIX_FIXED_BYTES, has_virtual_header, promises_header_copy,
};
use crate::engine::Engine;
use crate::frame::Edition;
#[cfg(feature = "plan")]
use crate::frame::plan::{DevicePlan, PlacedFrame, Placement, Reason};
use crate::limits::TAIL_LEN_BYTES;
use crate::{Error, Result, Rule, bytes, catalog};

/// The opener of a ZSTN file. It has no state, since everything is computed
/// from the [`FetchedRanges`].
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        needs(fetched)
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog> {
        finish(fetched, engine)
    }
}

/// The edition, the integrity section, and the block tables that were fetched
/// with the index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents {
    pub edition: Edition,
    pub integrity: Option<Integrity>,
    /// How each tensor is read from an entry of the file, if the catalog lists the
    /// tensors of a file of another format; otherwise empty.
    pub readings: Vec<Reading>,
    #[serde(skip)]
    pub tables: Tables,
}

impl FormatContents {
    fn frame<'a>(&'a self, stored: StoredTensor<'a, '_>) -> Result<CheckedFrame<'a>> {
        let (number, len_bytes) = self.entry(stored.tensor, stored.number);
        let expected = self.integrity.as_ref();
        let expected = expected.map(|integrity| (integrity, number));
        CheckedFrame::parse(stored.bytes, len_bytes, self.edition, expected)
    }

    /// Returns the number of the entry that holds tensor `number`, and the length of
    /// the decoded entry in bytes.
    pub(super) fn entry(&self, tensor: &FileTensor, number: usize) -> (usize, u64) {
        #[cfg(feature = "virtual-headers")]
        if let Some(reading) = self.readings.get(number) {
            return (reading.entry(), reading.entry_len_bytes());
        }
        (number, tensor.len_bytes())
    }

    /// Decodes the entry that holds a tensor.
    fn decode_entry<E: Engine>(&self, engine: &E, stored: StoredTensor) -> Result<Vec<u8>> {
        let frame = self.frame(stored)?;
        let mut out = bytes::buffer(self.entry(stored.tensor, stored.number).1)?;
        frame.decode(engine, &mut out)?;
        Ok(out)
    }

    /// Returns whether the decoded frame of tensor `number` is the tensor.
    pub(super) fn is_whole(&self, number: usize) -> bool {
        #[cfg(feature = "virtual-headers")]
        if let Some(reading) = self.readings.get(number) {
            return reading.is_all();
        }
        let _ = number;
        true
    }
}

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        #[cfg(feature = "virtual-headers")]
        if let Some(reading) = self.readings.get(stored.number) {
            if stored.tensor.len_bytes() == 0 {
                return Ok(Cow::Borrowed(&[]));
            }
            let entry = self.decode_entry(engine, stored);
            let values = entry.and_then(|entry| reading.values(stored.tensor, entry));
            return values.map(Cow::Owned).map_err(stored.in_file());
        }
        let decoded = self.decode_entry(engine, stored);
        decoded.map(Cow::Owned).map_err(stored.in_file())
    }

    fn decode_into<E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor,
        out: &mut [u8],
    ) -> Result<()> {
        catalog::check_len(&stored.tensor.name, stored.tensor.len_bytes(), out)?;
        if !self.is_whole(stored.number) {
            let decoded = self.decode(engine, stored)?;
            return catalog::copy(&stored.tensor.name, &decoded, out);
        }
        self.frame(stored)
            .and_then(|frame| frame.decode(engine, out))
            .map_err(stored.in_file())
    }

    fn unpacked_len_bytes(&self, tensor: &FileTensor, number: usize) -> u64 {
        match self.is_whole(number) {
            true => 0,
            false => self.entry(tensor, number).1,
        }
    }

    fn table(&self, tensor: &FileTensor, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        let (number, _) = self.entry(tensor, number);
        let range = self.integrity.as_ref()?.table(number)?;
        (fetched.is_empty() && self.tables.get(&range).is_none()).then_some(range)
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        #[cfg(feature = "virtual-headers")]
        if let Some(reading) = self.readings.get(number) {
            // A tensor without bytes may have no frame, and so no table.
            if span.is_empty() {
                return Ok(Some(RangePlan::stored(Vec::new())));
            }
            let table = self.block_table(tensor, number, table)?;
            let plan = |table| reading.plan(tensor.stored.start, &table, span);
            return Ok(table.and_then(plan));
        }
        let table = self.block_table(tensor, number, table)?;
        Ok(table.map(|table| RangePlan::of_frame(tensor.stored.start, &table, span.clone())))
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        #[cfg(feature = "virtual-headers")]
        let (entry, readings) = match self.readings.get(number) {
            Some(reading) => (reading.entry(), [reading.project()].into()),
            None => (number, Vec::new()),
        };
        #[cfg(not(feature = "virtual-headers"))]
        let (entry, readings) = (number, Vec::new());
        Self {
            edition: self.edition,
            integrity: self.integrity.as_ref().map(|all| all.project(entry)),
            readings,
            // Block tables are only used to read parts of a tensor.
            tables: Tables::default(),
        }
    }
}

/// Returns the ranges that are still missing: in the first round the rest of
/// the header and the tail, in the second the part of the index before the
/// tail.
fn needs(fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
    let len_bytes = fetched.len_bytes();
    let prefix_len = ContainerPrefix::len_bytes(fetched.head(), len_bytes)?;
    let rest_of_head = fetched.missing_head(prefix_len);
    if fetched.head().get(5) == Some(&0) {
        return Ok(rest_of_head.into_iter().collect());
    }
    let has_copy = promises_header_copy(fetched.head());
    // 24 bytes hold the record count and the footer. A copy takes about a tenth
    // of the header.
    let copy_len = if has_copy { prefix_len / 8 } else { 0 };
    let usual = prefix_len.saturating_add(prefix_len / 2 + copy_len + 24 + integrity::FIXED_BYTES);
    let guess = len_bytes.saturating_sub(usual.max(TAIL_LEN_BYTES));
    let covered = prefix_len.max(fetched.head().len() as u64);
    let footer_start = len_bytes - FOOTER_BYTES;
    let mut missing = Vec::new();
    if fetched.part(footer_start..len_bytes).is_none() {
        missing.push(guess.max(covered)..len_bytes);
    } else {
        let index = footer(fetched, prefix_len)?.index;
        if fetched.part(index.start..footer_start).is_none() {
            missing.push(index.start.max(covered)..fetched.tail_start());
        }
    }
    // The tail has to be fetched first: it shows whether there is a copy.
    let may_have_copy = has_copy && (!missing.is_empty() || section(fetched)?.header.is_some());
    missing.extend(rest_of_head.filter(|_| !may_have_copy));
    Ok(missing)
}

/// Returns the catalog. [`needs`] must have returned no range.
fn finish<E: Engine>(fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog> {
    let len_bytes = fetched.len_bytes();
    let prefix_bytes = prefix(fetched, engine)?;
    let prefix = ContainerPrefix::parse(&prefix_bytes, len_bytes)?;
    if prefix.layout == ContainerLayout::SingleFrame {
        return Err(Error::unsupported(
            "this checkpoint is stored as one frame: single tensors of it cannot be read, unpack \
             the whole file",
        ));
    }
    let index = footer(fetched, prefix.end())?.index;
    let after_index_start = fetched.have(index.start..len_bytes - FOOTER_BYTES);
    let tail = ContainerTail::parse(&prefix, &prefix_bytes, &index, &after_index_start)?;
    let header = bytes::part(&prefix_bytes, prefix.header.clone());
    let tables = tables(fetched, &tail, index.start);
    FileCatalog::zstn(header, &prefix, tail, tables, len_bytes)
}

/// Returns the integrity section of a file whose tail has been fetched; an
/// empty one if the file has none.
fn section(fetched: &FetchedRanges) -> Result<Section> {
    let len_bytes = fetched.len_bytes();
    let prefix_len = ContainerPrefix::len_bytes(fetched.head(), len_bytes)?;
    let index_end = footer(fetched, prefix_len)?.index.end;
    let section = Section::parse(&fetched.have(index_end..len_bytes - FOOTER_BYTES));
    let section = section.map_err(|error| error.within(index_end))?;
    Ok(section.unwrap_or_default())
}

/// Returns the bytes of the file before its frames. A header that was not fetched is
/// restored from its copy in the integrity section; [`ContainerTail::parse`] then
/// compares it with its checksum.
fn prefix<'a, E: Engine>(fetched: &'a FetchedRanges, engine: &E) -> Result<Cow<'a, [u8]>> {
    let prefix_len = ContainerPrefix::len_bytes(fetched.head(), fetched.len_bytes())?;
    if fetched.missing_head(prefix_len).is_none() {
        return Ok(fetched.have(0..prefix_len));
    }
    let section = section(fetched)?;
    let (Some(copy), Some(file), Some(_)) = (&section.header, &section.file, &section.head) else {
        return Err(Error::malformed(
            Rule::ZstnIntegrity,
            "the copy of the header has no checksums to compare it with",
        ));
    };
    let header_len = prefix_len - PREFIX_FIXED_BYTES;
    let header = integrity::decode_header_copy(engine, copy, header_len)?;
    // The original file consists of eight bytes for the length of its header,
    // the header, and the data; or of the data alone.
    let data_len = match has_virtual_header(fetched.head()) {
        true => file.len_bytes,
        false => file.len_bytes.saturating_sub(header_len + 8),
    };
    let start = bytes::part(fetched.head(), 0..PREFIX_FIXED_BYTES - 8);
    Ok([start, &header, &data_len.to_le_bytes()].concat().into())
}

/// Returns the block tables that were fetched together with the index.
fn tables(fetched: &FetchedRanges, tail: &ContainerTail, index_start: u64) -> Tables {
    let all = tail.integrity.as_ref().and_then(Integrity::tables_start);
    let Some(start) = all.map(|start| start.max(fetched.tail_from())) else {
        return Tables::default();
    };
    let bytes = fetched.part(start..index_start.max(start));
    Tables {
        start,
        bytes: bytes.unwrap_or_default().into_owned(),
    }
}

fn footer(fetched: &FetchedRanges, prefix_len: u64) -> Result<ContainerFooter> {
    let len_bytes = fetched.len_bytes();
    let bytes = fetched.have(len_bytes - FOOTER_BYTES..len_bytes);
    ContainerFooter::parse(&bytes, prefix_len, len_bytes)
}

impl FileCatalog {
    fn zstn(
        header_json: &[u8],
        prefix: &ContainerPrefix,
        tail: ContainerTail,
        tables: Tables,
        file_len_bytes: u64,
    ) -> Result<Self> {
        let index = tail.index;
        let data_len_bytes = prefix.data_len_bytes;
        let header = safetensors::Header::parse(header_json, data_len_bytes)?;
        let tensors = index
            .agree(&header)?
            .into_iter()
            .enumerate()
            .map(|(number, tensor)| {
                let (target, stored) = index.frame(number);
                FileTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: tensor.span.clone(),
                    stored,
                    base: None,
                    alias_of: (target != number).then_some(target),
                }
            })
            .collect();
        #[cfg(feature = "virtual-headers")]
        if prefix.has_virtual_header {
            let metadata = header.metadata.clone();
            return Self::new(
                AnyContents::Zstn(FormatContents {
                    edition: prefix.edition,
                    integrity: tail.integrity,
                    readings: Vec::new(),
                    tables,
                }),
                file_len_bytes,
                data_len_bytes,
                None,
                metadata,
                tensors,
            )?
            .listing_original(header_json, &header);
        }
        Self::new(
            AnyContents::Zstn(FormatContents {
                edition: prefix.edition,
                integrity: tail.integrity,
                readings: Vec::new(),
                tables,
            }),
            file_len_bytes,
            data_len_bytes,
            Some(header_json.to_vec()),
            header.metadata,
            tensors,
        )
    }

    /// Sets the checks that reading the tensors of a ZSTN file includes.
    pub(crate) fn set_verify(&mut self, verify: Verify) {
        if let AnyContents::Zstn(FormatContents {
            integrity: Some(integrity),
            ..
        }) = &mut self.contents
        {
            integrity.set_verify(verify);
        }
    }

    /// Returns whether this build omits the code for the checks that `verify`
    /// includes.
    #[must_use]
    pub fn is_verify_left_out(&self, verify: Verify) -> bool {
        self.integrity()
            .is_some_and(|integrity| integrity.is_left_out(verify))
    }

    /// Returns whether everything that this catalog was made from has been
    /// compared with checksums in the file, and every tensor will be when it is
    /// decoded. Bytes that are not all from one version of the file are then
    /// refused; reads of some rows of a tensor are not covered, since the
    /// catalog has no checksum of the tensor's block table.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.integrity().is_some_and(Integrity::covers_file)
    }

    /// Returns the integrity section of a ZSTN file
    /// (docs/formats/zstn-integrity.md); files written by z4ai have none.
    #[must_use]
    pub fn integrity(&self) -> Option<&Integrity> {
        match &self.contents {
            AnyContents::Zstn(contents) => contents.integrity.as_ref(),
            _ => None,
        }
    }

    /// Returns whether a plan may contain tensor `number`. Plans contain no tensors of files
    /// that are neither ZSTN files nor deltas.
    #[cfg(feature = "plan")]
    #[must_use]
    pub fn may_be_planned(&self, number: usize) -> bool {
        match &self.contents {
            AnyContents::Zstn(_) => number < self.tensors.len(),
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => contents.may_be_planned(number),
            _ => false,
        }
    }

    /// Adds tensor `number` to `plan`. Its `stored` bytes are at the offset `source` of
    /// the device's source, and it fills the bytes `output` of the device's output. If it
    /// has a [`FileTensor::base`](super::FileTensor), the output has to contain the base's
    /// tensor when the plan is decoded.
    ///
    /// If the file has checksums of the stored bytes, they are compared. Digests of decoded
    /// bytes in ZSTN files are not added to a plan, so a tensor of a file that only has
    /// these is left to the CPU. The plan contains the digests of the tensors of deltas.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::decode`] that do not require decoding, and the errors
    /// of [`DevicePlan::add`].
    #[cfg(feature = "plan")]
    pub fn add_to_plan<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &[u8],
        source: u64,
        output: Range<u64>,
        plan: &mut DevicePlan,
    ) -> Result<Placement> {
        let stored = self.stored(number, stored, None)?;
        let contents = match &self.contents {
            AnyContents::Zstn(contents) => contents,
            #[cfg(feature = "deltas")]
            AnyContents::Delta(contents) => {
                return contents.add_to_plan(engine, stored, source, output, plan);
            }
            _ => return Ok(Placement::Cpu(Reason::Family)),
        };
        if !contents.is_whole(stored.number) {
            return Ok(Placement::Cpu(Reason::WideElements));
        }
        let (number, _) = contents.entry(stored.tensor, stored.number);
        let in_file = stored.in_file();
        if let Some(integrity) = &contents.integrity {
            if integrity.has_only_digests() {
                return Ok(Placement::Cpu(Reason::Digest));
            }
            integrity
                .check_stored(number, stored.bytes)
                .map_err(&in_file)?;
        }
        let placed = PlacedFrame {
            bytes: stored.bytes,
            source,
            output,
            edition: contents.edition,
        };
        plan.add(engine, &placed).map_err(in_file)
    }

    /// Returns the statistics that were stored for each tensor when the file
    /// was packed, indexed by the number of the tensor
    /// (docs/formats/zstn-integrity.md 7), or `None` if the file has no
    /// statistics.
    ///
    /// # Errors
    /// [`Rule::ZstnStatistics`] for a malformed record.
    pub fn statistics(&self) -> Result<Option<Vec<Option<StoredStatistics>>>> {
        let Some(integrity) = self.integrity() else {
            return Ok(None);
        };
        let of = |tensors: &[FileTensor]| {
            let tensors: Vec<_> = tensors
                .iter()
                .map(|t| (t.dtype, t.shape.as_slice()))
                .collect();
            integrity.statistics(&tensors)
        };
        #[cfg(feature = "virtual-headers")]
        if let (Some(entries), AnyContents::Zstn(contents)) =
            (self.hidden_entries(), &self.contents)
        {
            let readings = contents.readings.iter();
            let of_tensor = |reading: &Reading, all: &[Option<StoredStatistics>]| {
                all.get(reading.entry())
                    .filter(|_| reading.is_all())?
                    .clone()
            };
            return Ok(of(entries)?.map(|all| readings.map(|r| of_tensor(r, &all)).collect()));
        }
        of(self.tensors())
    }
}
