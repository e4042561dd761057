//! Tracks the records of a file being written; the bytes of the frames go from
//! the caller to the file directly.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::index::write_record;
use super::integrity::{ChecksumBuilder, FrameDigests, Head, Section, checksum};
use super::{Content, Footer, Layout, PREFIX_FIXED_BYTES, Record, prefix_bytes};
use crate::engine::{PackEngine, ZstdCoding};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result};

/// Headers are repetitive: a tenth remains, and a higher level hardly gains
/// more.
const HEADER_CODING: ZstdCoding = ZstdCoding::Search(9);

/// A container being written. The caller writes what [`Writer::new`] returns,
/// then the frames in the order it announces them, then what [`Writer::finish`]
/// returns.
#[derive(Debug)]
pub struct Writer {
    original_len_bytes: u64,
    prefix_checksum: u64,
    header_copy: Option<Vec<u8>>,
    position: u64,
    records: Vec<Record>,
}

impl Writer {
    /// Starts an indexed container, with or without an integrity section, and
    /// returns the bytes to write first.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        header: &[u8],
        data_len_bytes: u64,
        has_integrity: bool,
    ) -> (Self, Vec<u8>) {
        let is_long = PREFIX_FIXED_BYTES + header.len() as u64 > HEAD_LEN_BYTES;
        let header_copy = (has_integrity && is_long).then(|| {
            let mut copy = Vec::new();
            engine.zstd_encode(header, HEADER_CODING, &mut copy);
            copy
        });
        let has_copy = header_copy.is_some();
        let prefix = prefix_bytes(Layout::Indexed, has_copy, header, data_len_bytes);
        let writer = Self {
            header_copy,
            original_len_bytes: (header.len() as u64 + 8).saturating_add(data_len_bytes),
            prefix_checksum: checksum([prefix.as_slice()]),
            position: prefix.len() as u64,
            records: Vec::new(),
        };
        (writer, prefix)
    }

    /// Returns the offset of the next frame in the file.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the records announced so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Announces that the next `stored_len_bytes` of the file are the frame of
    /// this tensor.
    pub fn frame(&mut self, name: String, span: Range<u64>, stored_len_bytes: u64) {
        let start = self.position;
        self.position += stored_len_bytes;
        self.records.push(Record {
            name,
            span,
            content: Content::Frame(start..self.position),
        });
    }

    /// Records that this tensor has the same bytes as record `target`, which
    /// must have a frame.
    pub fn alias(&mut self, name: String, span: Range<u64>, target: usize) -> Result<()> {
        match self.records.get(target).map(|record| &record.content) {
            Some(Content::Frame(_)) => {}
            _ => {
                return Err(
                    Error::invalid_input("an alias must refer to an earlier frame").tensor(&name),
                );
            }
        }
        self.records.push(Record {
            name,
            span,
            content: Content::Alias(target),
        });
        Ok(())
    }

    /// Returns block tables, index, integrity section and footer, the last
    /// bytes of the file. Tables and section are written if there are `sums`,
    /// which must cover the whole original and all frames.
    pub fn finish(self, sums: Option<ChecksumBuilder>) -> Result<Vec<u8>> {
        let count = u32::try_from(self.records.len())
            .map_err(|_| Error::invalid_input("a ZSTN index holds at most 2^32 records"))?;
        let mut out = Vec::new();
        if let Some(sums) = &sums {
            let tables = sums.frames.iter().map(|frame| &frame.table);
            tables.for_each(|table| out.extend_from_slice(table));
        }
        let start = out.len();
        out.extend_from_slice(&count.to_le_bytes());
        for record in &self.records {
            write_record(&mut out, record)?;
        }
        let footer = Footer {
            index: self.position + start as u64..self.position + out.len() as u64,
        };
        if let Some(sums) = sums {
            let section = self.section(&sums, checksum([&out[start..]]))?;
            section.write(&mut out);
        }
        out.extend_from_slice(&footer.to_bytes());
        Ok(out)
    }

    fn section(&self, sums: &ChecksumBuilder, index_checksum: u64) -> Result<Section> {
        let has_frame = |record: &&Record| matches!(record.content, Content::Frame(_));
        let file = sums.file();
        if sums.frames.len() != self.records.iter().filter(has_frame).count()
            || file.len_bytes != self.original_len_bytes
        {
            return Err(Error::invalid_input(
                "the sums are not those of all frames and of the whole original file",
            ));
        }
        // An entry can state a table of 4 GiB: no plane has that many blocks.
        let table_len = |frame: &FrameDigests| u32::try_from(frame.table.len()).unwrap_or(u32::MAX);
        let tables: Vec<u32> = sums.frames.iter().map(table_len).collect();
        Ok(Section {
            tables: tables.iter().any(|&len| len > 0).then_some(tables),
            header: self.header_copy.clone(),
            file: Some(file),
            head: Some(Head {
                prefix: self.prefix_checksum,
                index: index_checksum,
            }),
            frames: Some(sums.frames.iter().map(|frame| frame.stored).collect()),
            tensors: Some(sums.frames.iter().map(|frame| frame.tensor).collect()),
        })
    }
}

/// Returns the bytes before the frame in the single-frame layout
/// (docs/formats/z4ai-containers.md 2.4); the file ends after the frame.
#[must_use]
pub fn single_frame(header: &[u8], data_len_bytes: u64, frame_len_bytes: u64) -> Vec<u8> {
    let mut out = prefix_bytes(Layout::SingleFrame, false, header, data_len_bytes);
    out.extend_from_slice(&frame_len_bytes.to_le_bytes());
    out
}
