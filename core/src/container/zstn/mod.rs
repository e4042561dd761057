//! ZSTN version 3 (docs/formats/z4ai-containers.md 2) and version 4
//! (docs/formats/extensions.md 2): the header of a safetensors file, one frame
//! per distinct tensor, and an index at the end.
//!
//! ```text
//! prefix   magic, version, flag, header length, header, data length
//! frames   back to back
//! index    one record per tensor: name, span, frame or alias
//! section  checksums and digests (zstn-integrity.md); optional
//! footer   offset of the index
//! ```

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{Cursor, part};
use crate::frame::Edition;
use crate::{Error, Result, Rule};
use index::unexplained;
use integrity::{Integrity, Section};

#[doc(hidden)]
pub mod aliases;
mod builder;
mod entry_codings;
mod in_memory;
mod incremental;
mod index;
pub mod integrity;
mod options;
#[doc(hidden)]
pub mod rows;
#[cfg(feature = "virtual-headers")]
pub mod virtual_header;

pub use builder::{ContainerBuilder, ContainerEnd, ContainerStart, StoredFrame, single_frame};
pub use entry_codings::EntryCodings;
pub use in_memory::{pack, pack_into, single_frame_range, unpack, unpack_into};
pub use incremental::{IncrementalPacker, PackedTensor};
pub use index::{ContainerIndex, IndexRecord, RecordContent};
pub use integrity::CheckedFrame;
pub use options::{CodedTensor, ContainerOptions, OriginalSha256, parse_sha256};

/// The first and the last bytes of the file.
pub const MAGIC: [u8; 4] = *b"ZSTN";
/// The version number of each edition.
const VERSIONS: &[u8] = &[3, 4];

/// Returns the version of a file of this `edition`.
#[must_use]
pub fn version(edition: Edition) -> u8 {
    edition.number(VERSIONS)
}

/// The length of the prefix without the header, in bytes.
pub(crate) const PREFIX_FIXED_BYTES: u64 = 22;

/// The layout of the tensor data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerLayout {
    /// Each distinct tensor has a frame, and an index lists them.
    Indexed,
    /// The whole data buffer is a single frame; single tensors cannot be read.
    SingleFrame,
}

/// The fields before the frames, without the text of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPrefix {
    /// The edition, which determines the frame families allowed.
    pub edition: Edition,
    /// The layout of the tensor data.
    pub layout: ContainerLayout,
    /// The range of the safetensors header in the file.
    pub header: Range<u64>,
    /// The length of the original data buffer in bytes.
    pub data_len_bytes: u64,
    /// True if the file announces an integrity section. A file without the
    /// announcement may have a section as well.
    pub has_integrity: bool,
    /// True if the header is virtual: the file that this container restores is
    /// the data buffer, without the header (docs/formats/zstn-virtual-header.md).
    pub has_virtual_header: bool,
}

impl ContainerPrefix {
    /// Returns the length of the prefix including the header, given at least
    /// the first 14 bytes of a file of `file_len_bytes`.
    pub fn len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
        let PrefixStart {
            layout, header_len, ..
        } = read_start(&mut Cursor::new(head))?;
        let after = match layout {
            ContainerLayout::Indexed => FOOTER_BYTES + 4,
            ContainerLayout::SingleFrame => 8,
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

    /// Parses the prefix from the first [`ContainerPrefix::len_bytes`] bytes.
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
            has_virtual_header: start.flag & HAS_VIRTUAL_HEADER != 0,
        })
    }

    /// Returns the version of the file.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.edition.number(VERSIONS)
    }

    /// Returns the smallest possible offset of a frame.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.header.end + 8
    }

    /// Returns the length in bytes of the file that this container restores.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let head_len_bytes = match self.has_virtual_header {
            true => 0,
            false => self.header.end - self.header.start + 8,
        };
        self.data_len_bytes.saturating_add(head_len_bytes)
    }

    /// Checks that a header that the layout flag makes virtual describes an original. In a
    /// file without an integrity section, nothing else reveals that a damaged flag would
    /// leave the header out of the restored file.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] for a header that is not virtual, and the errors of
    /// [`Header::parse`](super::safetensors::Header::parse).
    pub fn check_virtual_header(&self, header: &[u8]) -> Result<()> {
        if !self.has_virtual_header {
            return Ok(());
        }
        #[cfg(feature = "virtual-headers")]
        return virtual_header::check(header, self.data_len_bytes);
        #[cfg(not(feature = "virtual-headers"))]
        {
            let _ = header;
            Err(Error::left_out())
        }
    }

    /// Returns the bytes of the restored file before its data buffer, given the
    /// bytes of the header: the length of the header and the header, or none if
    /// the header is virtual.
    #[must_use]
    pub fn original_head(&self, header: &[u8]) -> Vec<u8> {
        match self.has_virtual_header {
            true => Vec::new(),
            false => [&(header.len() as u64).to_le_bytes(), header].concat(),
        }
    }
}

/// The fields before the header.
struct PrefixStart {
    edition: Edition,
    layout: ContainerLayout,
    flag: u8,
    header_len: u64,
}

fn read_start(cursor: &mut Cursor) -> Result<PrefixStart> {
    cursor.expect_magic(&MAGIC, Rule::ZstnMagic, "ZSTN file")?;
    let edition = Edition::read(cursor, VERSIONS, Rule::ZstnVersion, "ZSTN file")?;
    let flag = cursor.u8("layout flag")?;
    let layout = match flag {
        0 => ContainerLayout::SingleFrame,
        _ => ContainerLayout::Indexed,
    };
    Ok(PrefixStart {
        edition,
        layout,
        flag,
        header_len: cursor.u64("header length")?,
    })
}

/// The offset of the layout flag in the file.
const FLAG_OFFSET_BYTES: u64 = 5;

/// The bit of the layout flag that announces a copy of the header in the
/// integrity section. z4ai takes any flag but 0 for the indexed layout.
const HAS_HEADER_COPY: u8 = 2;
/// The bit of the layout flag that announces an integrity section. Without it,
/// a file that lost its section would look like a file of z4ai.
const HAS_INTEGRITY: u8 = 4;

/// The bit of the layout flag that makes the header virtual
/// (docs/formats/zstn-virtual-header.md 1).
const HAS_VIRTUAL_HEADER: u8 = 8;

/// Returns whether the header of a ZSTN file that begins with `head` is virtual.
#[must_use]
pub fn has_virtual_header(head: &[u8]) -> bool {
    head.get(5)
        .is_some_and(|flag| flag & HAS_VIRTUAL_HEADER != 0)
}

/// Returns whether the first bytes of a file announce a copy of the header in
/// the integrity section (docs/formats/zstn-integrity.md 6).
#[must_use]
pub fn promises_header_copy(head: &[u8]) -> bool {
    head.get(5).is_some_and(|flag| flag & HAS_HEADER_COPY != 0)
}

/// The announcements in the prefix of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// There is no integrity section.
    Nothing,
    /// There is an integrity section.
    Integrity,
    /// There is an integrity section with a copy of the header.
    HeaderCopy,
}

/// Returns the prefix of a new file.
#[must_use]
pub fn prefix_bytes(
    edition: Edition,
    layout: ContainerLayout,
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
    out.push(u8::from(layout == ContainerLayout::Indexed) | announced);
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(&data_len_bytes.to_le_bytes());
    out
}

/// A checked index and, if the file has one, its integrity section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTail {
    /// The index: for each tensor its frame, or the tensor with equal bytes.
    pub index: ContainerIndex,
    /// The integrity section. Files written by z4ai have none.
    pub integrity: Option<Integrity>,
}

impl ContainerTail {
    /// Parses `bytes`, the bytes between `index.start` and the footer. `index`
    /// is the range of the index, and `prefix_bytes` contains the file before
    /// its frames. Offsets in errors are relative to the start of the file.
    ///
    /// # Errors
    /// A file with bytes that belong to no prefix, frame, statistics, block
    /// table, index, integrity section or footer, and a file that lacks the
    /// section that its prefix announces.
    pub fn parse(
        prefix: &ContainerPrefix,
        prefix_bytes: &[u8],
        index: &Range<u64>,
        bytes: &[u8],
    ) -> Result<Self> {
        let index_len = index.end - index.start;
        let after = part(bytes, index_len..bytes.len() as u64);
        let index_bytes = part(bytes, 0..index_len);
        let index_start = index.start;
        let parse_index = || {
            ContainerIndex::parse(
                index_bytes,
                prefix.end()..index_start,
                prefix.data_len_bytes,
            )
        };
        let section = match Section::parse(after) {
            Ok(section) => section,
            // If the index itself is cut short, its error explains the bytes
            // after it.
            Err(error) => {
                return Err(parse_index().err().unwrap_or(error.within(index.end)));
            }
        };
        match &section {
            Some(section) => section.check_head(prefix_bytes, index_bytes)?,
            None if prefix.has_integrity => {
                return Err(Error::malformed(
                    Rule::ZstnIntegrity,
                    "the file was packed with an integrity section, and has none: it is damaged, \
                     get it again",
                )
                .at(index.end));
            }
            None => {}
        }
        let index = parse_index()?;
        let after_frames = index.check_frames(prefix.end())?..index_start;
        let integrity = match section {
            Some(section) => Some(section.attach(prefix, &index, after_frames)?),
            None if after_frames.is_empty() => None,
            None => return Err(unexplained(after_frames)),
        };
        Ok(Self { index, integrity })
    }

    /// Parses the index and the section like [`ContainerTail::parse`], from the whole
    /// file.
    pub fn of_file(prefix: &ContainerPrefix, file: &[u8]) -> Result<Self> {
        let mut fetch = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
        let prefix_bytes = part(file, 0..prefix.end());
        Self::read(prefix, prefix_bytes, file.len() as u64, &mut fetch)
    }

    /// Parses the index and the section like [`ContainerTail::parse`], from a file of
    /// `len_bytes`. `fetch` returns the bytes of a range.
    ///
    /// # Errors
    /// The errors of `fetch`, and the rule that the file breaks.
    pub fn read<'f, E: From<Error>>(
        prefix: &ContainerPrefix,
        prefix_bytes: &[u8],
        len_bytes: u64,
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
    ) -> Result<Self, E> {
        let footer_start = len_bytes - FOOTER_BYTES;
        let footer = fetch(footer_start..len_bytes)?;
        let index = ContainerFooter::parse(&footer, prefix.end(), len_bytes)?.index;
        let bytes = fetch(index.start..footer_start)?;
        Ok(Self::parse(prefix, prefix_bytes, &index, &bytes)?)
    }
}

/// The length of the footer in bytes.
pub const FOOTER_BYTES: u64 = 20;

/// The footer, which contains the location of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerFooter {
    /// The range of the index in the file.
    pub index: Range<u64>,
}

impl ContainerFooter {
    /// Parses the footer `bytes` of a file of `file_len_bytes`. `frames_start`
    /// is the smallest possible offset of a frame.
    pub fn parse(bytes: &[u8], frames_start: u64, file_len_bytes: u64) -> Result<Self> {
        let footer_start = file_len_bytes - FOOTER_BYTES;
        let mut cursor = Cursor::new(bytes);
        let offset = cursor.u64("index offset")?;
        let len = cursor.u64("index length")?;
        if cursor.take(4, "trailer")? != MAGIC {
            return Err(Error::malformed(
                Rule::ZstnFooter,
                "the file does not end with the ZSTN trailer; it looks cut off or has bytes \
                 appended",
            )
            .at(file_len_bytes - 4));
        }
        match offset.checked_add(len) {
            Some(end) if offset >= frames_start && end <= footer_start => {
                Ok(Self { index: offset..end })
            }
            _ => Err(Error::malformed(
                Rule::ZstnIndexPlace,
                format!("the footer places the index at {offset} with {len} bytes"),
            )
            .at(footer_start)),
        }
    }

    /// Encodes the footer: offset and length of the index as little-endian `u64`, then the
    /// magic.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut out = [0; 20];
        out[..8].copy_from_slice(&self.index.start.to_le_bytes());
        out[8..16].copy_from_slice(&(self.index.end - self.index.start).to_le_bytes());
        out[16..].copy_from_slice(&MAGIC);
        out
    }
}
