//! The start of the file (docs/formats/z4ai-containers.md 2.1).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::{MAGIC, PREFIX_FIXED_BYTES, VERSIONS};
use crate::bytes::Cursor;
use crate::frame::Edition;
use crate::{Error, Result, Rule};

/// How the tensor data are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One frame per tensor and an index.
    Indexed,
    /// The whole data buffer as a single frame; single tensors cannot be read.
    SingleFrame,
}

/// The bytes before the frames, without the text of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// What the frames may be.
    pub edition: Edition,
    /// How the data are stored.
    pub layout: Layout,
    /// Range of the safetensors header in the file.
    pub header: Range<u64>,
    /// Length of the original data buffer.
    pub data_len_bytes: u64,
    /// Whether the file announces an integrity section. Files of z4ai, and of zstn
    /// before the announcement, do not.
    pub has_integrity: bool,
}

impl Prefix {
    /// Returns the length of the prefix including the header, from the first 14
    /// bytes of a file of `file_len_bytes`.
    pub fn len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
        let Start {
            layout, header_len, ..
        } = read_start(&mut Cursor::new(head))?;
        let after = match layout {
            Layout::Indexed => super::FOOTER_BYTES + 4,
            Layout::SingleFrame => 8,
        };
        match file_len_bytes.checked_sub(PREFIX_FIXED_BYTES + after) {
            Some(available) if header_len <= available => Ok(PREFIX_FIXED_BYTES + header_len),
            _ => Err(Error::malformed(
                Rule::ZstnHeaderLength,
                format!(
                    "a header of {header_len} bytes does not fit into a file of \
                     {file_len_bytes}; it looks cut off"
                ),
            )
            .at(6)),
        }
    }

    /// Reads the prefix from the first [`Prefix::len_bytes`] bytes.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Self> {
        Self::len_bytes(head, file_len_bytes)?;
        let mut cursor = Cursor::new(head);
        let start = read_start(&mut cursor)?;
        let header_start = cursor.position() as u64;
        cursor.take(start.header_len, "safetensors header")?;
        Ok(Self {
            edition: start.edition,
            layout: start.layout,
            header: header_start..header_start + start.header_len,
            data_len_bytes: cursor.u64("data length")?,
            has_integrity: start.flag & HAS_INTEGRITY != 0,
        })
    }

    /// Returns the version of the file.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.edition.number(VERSIONS)
    }

    /// Returns the offset at which frames may begin.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.header.end + 8
    }

    /// Returns the length of the file that this container restores.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        (self.header.end - self.header.start + 8).saturating_add(self.data_len_bytes)
    }
}

/// The fields before the header.
struct Start {
    edition: Edition,
    layout: Layout,
    flag: u8,
    header_len: u64,
}

fn read_start(cursor: &mut Cursor) -> Result<Start> {
    cursor.expect_magic(&MAGIC, Rule::ZstnMagic, "ZSTN file")?;
    let edition = Edition::read(cursor, VERSIONS, Rule::ZstnVersion, "ZSTN file")?;
    let flag = cursor.u8("layout flag")?;
    let layout = match flag {
        0 => Layout::SingleFrame,
        _ => Layout::Indexed,
    };
    Ok(Start {
        edition,
        layout,
        flag,
        header_len: cursor.u64("header length")?,
    })
}

/// Bit of the layout flag: the integrity section holds a copy of the header.
/// z4ai reads any flag but 0 as that of an index.
const HAS_HEADER_COPY: u8 = 2;
/// Bit of the layout flag: the file has an integrity section. Without the
/// announcement, a file that lost its section would look like one of z4ai.
const HAS_INTEGRITY: u8 = 4;

/// Returns whether a file with this head says that its integrity section holds
/// a copy of the header (docs/formats/zstn-integrity.md 6).
#[must_use]
pub fn promises_header_copy(head: &[u8]) -> bool {
    head.get(5).is_some_and(|flag| flag & HAS_HEADER_COPY != 0)
}

/// What the prefix of a new file announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// Nothing.
    Nothing,
    /// An integrity section.
    Integrity,
    /// An integrity section with a copy of the header.
    HeaderCopy,
}

/// Returns the prefix of a new file.
#[must_use]
pub fn prefix_bytes(
    edition: Edition,
    layout: Layout,
    announced: Announced,
    header: &[u8],
    data_len_bytes: u64,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(header.len() + 22);
    out.extend_from_slice(&MAGIC);
    out.push(edition.number(VERSIONS));
    let announced = match announced {
        Announced::Nothing => 0,
        Announced::Integrity => HAS_INTEGRITY,
        Announced::HeaderCopy => HAS_INTEGRITY | HAS_HEADER_COPY,
    };
    out.push(u8::from(layout == Layout::Indexed) | announced);
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(&data_len_bytes.to_le_bytes());
    out
}
