//! Builds a container: decides its layout, and keeps records, checksums and
//! offsets consistent. The bytes of the frames go from the caller directly to
//! the file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::index::write_record;
use super::integrity::{
    ChecksumBuilder, FrameDigests, HeadChecksums, OriginalHash, Section, checksum, write_entry,
};
use super::{
    Announced, ContainerFooter, ContainerLayout, ContainerOptions, FLAG_OFFSET_BYTES,
    HAS_VIRTUAL_HEADER, IndexRecord, PREFIX_FIXED_BYTES, RecordContent, VERSIONS, prefix_bytes,
};
use crate::bytes::index;
use crate::container::VERSION_OFFSET_BYTES;
use crate::container::safetensors::{Header, HeaderTensor};
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::{Edition, select};
use crate::limits::{HEAD_LEN_BYTES, NAME_LEN_BYTES};
use crate::{Error, Result, Rule, TensorRef};

/// The compression of the header. Headers are repetitive and shrink to a tenth;
/// higher levels gain hardly anything.
const HEADER_CODING: ZstdCoding = ZstdCoding::Search(9);

/// The layout chosen for a file, from [`ContainerBuilder::start`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there is only one per file
pub enum ContainerStart {
    /// Each distinct tensor gets a frame.
    Indexed {
        /// The builder, which takes the frames.
        builder: ContainerBuilder,
        /// The bytes to write first.
        prefix: Vec<u8>,
        /// The tensors, in the order in which the builder takes them.
        tensors: Vec<HeaderTensor>,
    },
    /// All data become one frame ([`single_frame`]), because the file breaks a
    /// rule of safetensors or because an index cannot store its names.
    SingleFrame,
}

/// The properties of a frame that the builder requires.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredFrame {
    /// The length of the frame in bytes.
    pub len_bytes: u64,
    /// The edition that the frame requires of its file ([`Edition::of_frame`]).
    pub edition: Edition,
    /// The digests that
    /// [`ContainerOptions::code`](super::ContainerOptions::code) has computed,
    /// if the container has an integrity section.
    pub digests: Option<FrameDigests>,
}

/// The end of a container, and the version that its frames require.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEnd {
    /// The bytes to write after the last frame.
    pub bytes: Vec<u8>,
    /// The version to write at [`VERSION_OFFSET_BYTES`] of the file. It differs
    /// from the version in the prefix only if the options allow extension
    /// frames
    /// ([`EncodeOptions::extended`](crate::frame::select::EncodeOptions::extended))
    /// and there is one.
    pub version: u8,
}

/// A container being built.
///
/// The caller writes the prefix that [`ContainerBuilder::start`] returns, then the
/// frames in the announced order, then the bytes that [`ContainerBuilder::finish`]
/// returns. Only then is the version of the file known, which is a byte of the prefix.
#[derive(Debug)]
pub struct ContainerBuilder {
    original_len_bytes: u64,
    /// The checksum of the prefix with the version number of each edition.
    prefix_checksums: [u64; 2],
    edition: Edition,
    header_copy: Option<Vec<u8>>,
    position: u64,
    records: Vec<IndexRecord>,
    /// Collects the integrity section, if the options request one.
    sums: Option<ChecksumBuilder>,
}

impl ContainerBuilder {
    /// Starts the container of a safetensors file with this header, which is
    /// followed by `data_len_bytes` of data.
    ///
    /// # Errors
    /// [`Rule::SafetensorsTruncated`] for a file that ends before its tensors
    /// do, unless the options allow it.
    pub fn start<E: PackEngine>(
        engine: &E,
        header: &[u8],
        data_len_bytes: u64,
        options: &ContainerOptions,
    ) -> Result<ContainerStart> {
        let tensors = match Header::parse(header, data_len_bytes) {
            Ok(parsed) if parsed.tensors.iter().all(name_fits) => parsed.tensors,
            Err(error)
                if error.rule() == Some(Rule::SafetensorsTruncated) && !options.allow_truncated =>
            {
                return Err(error);
            }
            _ => return Ok(ContainerStart::SingleFrame),
        };
        let head = [&(header.len() as u64).to_le_bytes(), header].concat();
        Ok(Self::indexed(
            engine,
            header,
            &head,
            data_len_bytes,
            tensors,
            options,
        ))
    }

    /// Starts the container of a file of `len_bytes` with this virtual header
    /// (docs/formats/zstn-virtual-header.md).
    ///
    /// # Errors
    /// The errors of a safetensors header that does not describe `len_bytes` of data.
    pub fn start_virtual<E: PackEngine>(
        engine: &E,
        header: &[u8],
        len_bytes: u64,
        options: &ContainerOptions,
    ) -> Result<ContainerStart> {
        let tensors = Header::parse(header, len_bytes)?.tensors;
        Ok(Self::indexed(
            engine,
            header,
            &[],
            len_bytes,
            tensors,
            options,
        ))
    }

    /// Starts an indexed container. `head` contains the bytes of the original
    /// before its data buffer; it is empty if the header is virtual.
    fn indexed<E: PackEngine>(
        engine: &E,
        header: &[u8],
        head: &[u8],
        data_len_bytes: u64,
        tensors: Vec<HeaderTensor>,
        options: &ContainerOptions,
    ) -> ContainerStart {
        let is_long = PREFIX_FIXED_BYTES + header.len() as u64 > HEAD_LEN_BYTES;
        let header_copy = (options.has_integrity && is_long).then(|| {
            let mut copy = Vec::new();
            engine.zstd_encode(header, HEADER_CODING, &mut copy);
            copy
        });
        let announced = match (&header_copy, options.has_integrity) {
            (Some(_), _) => Announced::HeaderCopy,
            (None, true) => Announced::Integrity,
            (None, false) => Announced::Nothing,
        };
        let mut prefix = prefix_bytes(
            Edition::Plain,
            ContainerLayout::Indexed,
            announced,
            header,
            data_len_bytes,
        );
        if head.is_empty() {
            prefix[index(FLAG_OFFSET_BYTES)] |= HAS_VIRTUAL_HEADER;
        }
        let builder = Self {
            header_copy,
            original_len_bytes: (head.len() as u64).saturating_add(data_len_bytes),
            prefix_checksums: prefix_checksums(&prefix, options),
            edition: Edition::Plain,
            position: prefix.len() as u64,
            records: Vec::with_capacity(tensors.len()),
            sums: options
                .has_integrity
                .then(|| ChecksumBuilder::new(head, options.original_sha256)),
        };
        ContainerStart::Indexed {
            builder,
            prefix,
            tensors,
        }
    }

    /// Returns the offset of the next frame in the file.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the records announced so far.
    #[must_use]
    pub fn records(&self) -> &[IndexRecord] {
        &self.records
    }

    /// Takes the hash of the original file out of the builder, if its SHA-256
    /// is to be computed. The caller adds the original's data in order,
    /// including the bytes of aliases, and passes the hash back to
    /// [`ContainerBuilder::set_original_hash`].
    pub fn take_original_hash(&mut self) -> Option<OriginalHash> {
        self.sums.as_mut().and_then(ChecksumBuilder::take_hash)
    }

    /// Sets the hash of the original file, to which all of its data have been added.
    pub fn set_original_hash(&mut self, hash: OriginalHash) {
        if let Some(sums) = &mut self.sums {
            sums.set_hash(hash);
        }
    }

    /// Adds the next bytes of the original's data, including the bytes of
    /// aliases.
    pub fn original(&mut self, bytes: &[u8]) {
        if let Some(sums) = &mut self.sums {
            sums.data(bytes);
        }
    }

    /// Returns the version that the frames announced so far require.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.edition.number(VERSIONS)
    }

    /// Announces that the next bytes of the file are the frame of this tensor.
    pub fn frame(&mut self, name: String, span: Range<u64>, frame: StoredFrame) {
        if let (Some(sums), Some(digests)) = (&mut self.sums, frame.digests) {
            sums.frame(digests);
        }
        self.edition = self.edition.max(frame.edition);
        let start = self.position;
        self.position += frame.len_bytes;
        self.records.push(IndexRecord {
            name,
            span,
            content: RecordContent::Frame(start..self.position),
        });
    }

    /// Records that this tensor has the same bytes as record `target`, which
    /// must have a frame.
    pub fn alias(&mut self, name: String, span: Range<u64>, target: usize) -> Result<()> {
        match self.records.get(target).map(|record| &record.content) {
            Some(RecordContent::Frame(_)) => {}
            _ => {
                return Err(
                    Error::invalid_input("an alias must refer to an earlier frame").tensor(&name),
                );
            }
        }
        self.records.push(IndexRecord {
            name,
            span,
            content: RecordContent::Alias(target),
        });
        Ok(())
    }

    /// Returns the last bytes of the file (the statistics of bands, the block
    /// tables, the index, the integrity section and the footer) and the version
    /// of the file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the digests of a frame
    /// or bytes of the original are missing.
    pub fn finish(self) -> Result<ContainerEnd> {
        let count = self.records.len();
        let count = u32::try_from(count).map_err(|_| {
            let most = u32::MAX;
            Error::invalid_input(format!(
                "{count} tensors are too many for a ZSTN file, which has at most {most}"
            ))
        })?;
        let mut out = Vec::new();
        if let Some(sums) = &self.sums {
            let statistics = sums.frames.iter().flat_map(|frame| &frame.statistics);
            statistics.for_each(|statistics| out.extend_from_slice(&statistics.bands));
            let tables = sums.frames.iter().map(|frame| &frame.table);
            tables.for_each(|table| out.extend_from_slice(table));
        }
        let start = out.len();
        out.extend_from_slice(&count.to_le_bytes());
        for record in &self.records {
            write_record(&mut out, record)?;
        }
        let footer = ContainerFooter {
            index: self.position + start as u64..self.position + out.len() as u64,
        };
        if let Some(sums) = &self.sums {
            let section = self.section(sums, checksum([&out[start..]]))?;
            section.write(&mut out);
        }
        out.extend_from_slice(&footer.to_bytes());
        Ok(ContainerEnd {
            bytes: out,
            version: self.version(),
        })
    }

    fn section(&self, sums: &ChecksumBuilder, index_checksum: u64) -> Result<Section> {
        let has_frame = |record: &&IndexRecord| matches!(record.content, RecordContent::Frame(_));
        let file = sums.file(self.original_len_bytes);
        if file.is_none() || sums.frames.len() != self.records.iter().filter(has_frame).count() {
            return Err(Error::invalid_input(
                "the builder did not receive all of the original file, or the digests of all \
                 frames",
            ));
        }
        // The length fits in 32 bits: no plane has enough blocks for a table of
        // 4 GiB.
        let table_len = |frame: &FrameDigests| u32::try_from(frame.table.len()).unwrap_or(u32::MAX);
        let tables: Vec<u32> = sums.frames.iter().map(table_len).collect();
        let has_statistics = sums.frames.iter().any(|frame| frame.statistics.is_some());
        let mut statistics = Vec::new();
        for frame in &sums.frames {
            write_entry(&mut statistics, frame.statistics.as_ref());
        }
        Ok(Section {
            statistics: has_statistics.then_some(statistics),
            tables: tables.iter().any(|&len| len > 0).then_some(tables),
            header: self.header_copy.clone(),
            file,
            head: Some(HeadChecksums {
                prefix: self.prefix_checksums[self.edition as usize],
                index: index_checksum,
            }),
            frames: Some(sums.frames.iter().map(|frame| frame.stored).collect()),
            tensors: Some(sums.frames.iter().map(|frame| frame.tensor).collect()),
        })
    }
}

/// Returns the checksum of the prefix for each edition. Both are the same if
/// the options allow only one edition.
fn prefix_checksums(prefix: &[u8], options: &ContainerOptions) -> [u64; 2] {
    let plain = checksum([prefix]);
    if !options.encode.is_extended() {
        return [plain; 2];
    }
    let (start, rest) = prefix.split_at(index(VERSION_OFFSET_BYTES));
    let version = [Edition::Extended.number(VERSIONS)];
    [plain, checksum([start, &version, &rest[1..]])]
}

/// Returns whether an index can store the tensor's name.
fn name_fits(tensor: &HeaderTensor) -> bool {
    tensor.name.len() <= NAME_LEN_BYTES
}

/// Returns a container in the single-frame layout, in two pieces: the bytes
/// before the frame, and the frame, with which the file ends
/// (docs/formats/z4ai-containers.md 2.4).
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the file does not have the
/// SHA-256 that the options claim. This layout cannot store the claim, so it is
/// checked at once.
pub fn single_frame<E: PackEngine>(
    engine: &E,
    header: &[u8],
    data: &[u8],
    options: &ContainerOptions,
) -> Result<[Vec<u8>; 2]> {
    let header_len = (header.len() as u64).to_le_bytes();
    let file = [&header_len[..], header, data];
    options.original_sha256.check_claim(file)?;
    let frame = select::encode(engine, TensorRef::flat(data, None), options.encode);
    let edition = Edition::of_frame(&frame);
    let len_bytes = data.len() as u64;
    let mut prefix = prefix_bytes(
        edition,
        ContainerLayout::SingleFrame,
        Announced::Nothing,
        header,
        len_bytes,
    );
    prefix.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    Ok([prefix, frame])
}
