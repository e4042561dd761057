//! The integrity section of a ZSTN file, which makes damage detectable
//! (docs/formats/zstn-integrity.md). It is optional. z4ai ignores it, as it
//! does all bytes between the index and the footer.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes::{Cursor, buffer, part};
use crate::checksum::agrees;
use crate::container::tagged::{self, Tag, Value};
use crate::digest::Digest;
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

mod checksum_builder;
mod frame_check;
mod statistics;
mod verify;

pub use crate::checksum::checksum;
pub use checksum_builder::{ChecksumBuilder, FrameDigests, OriginalHash};
pub use frame_check::{CheckedFrame, StatisticsCheck, check_table};
#[doc(hidden)]
pub use statistics::bands_checksum;
pub(super) use statistics::write_entry;
pub use statistics::{EncodedStatistics, StoredStatistics};
pub use verify::{FileCheck, Integrity, Verify};

/// The length of a section without the entries of its tensors, in bytes.
pub const FIXED_BYTES: u64 = 142;

const MAGIC: [u8; 8] = *b"ZSTNINTG";
const VERSION: u16 = 1;
const CHECKSUM_BYTES: u64 = 8;
const TAG_FILE: Tag = *b"FILE";
const TAG_HEAD: Tag = *b"HEAD";
const TAG_FRAMES: Tag = *b"FRMS";
const TAG_TENSORS: Tag = *b"TENS";
const TAG_TABLES: Tag = *b"BLKS";
const TAG_HEADER: Tag = *b"JSON";
const TAG_STATISTICS: Tag = *b"STAT";
const TAG_CLAIMED: Tag = *b"CLMD";

/// The length and the digest of the original file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileDigest {
    pub len_bytes: u64,
    pub sha256: [u8; 32],
    /// True if the packer was given the SHA-256 and did not compare it with the
    /// file.
    pub is_claimed: bool,
}

/// The checksums of the bytes that are read when the file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadChecksums {
    pub prefix: u64,
    pub index: u64,
}

/// The records of the section, before they are compared with the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub file: Option<FileDigest>,
    pub head: Option<HeadChecksums>,
    /// The checksum of every frame.
    pub frames: Option<Vec<u64>>,
    /// The digest of the tensor of every frame.
    pub tensors: Option<Vec<Digest>>,
    /// The length in bytes of the block table of every frame; `None` if the
    /// file has no tables.
    pub tables: Option<Vec<u32>>,
    /// A copy of the header, as a zstd frame.
    pub header: Option<Vec<u8>>,
    /// The statistics entries of all frames.
    pub statistics: Option<Vec<u8>>,
}

impl Section {
    /// Parses the section from `after_index`, all bytes between the index and
    /// the footer; `None` if there are no bytes. Offsets in errors are relative
    /// to the start of `after_index`.
    ///
    /// # Errors
    /// [`Rule::ZstnIntegrity`] for bytes that are not a section: damage to the
    /// magic must not turn a file with checksums into one without.
    pub fn parse(after_index: &[u8]) -> Result<Option<Self>> {
        let Some((start, records)) = records(after_index)? else {
            return Ok(None);
        };
        Self::from_records(records)
            .map(Some)
            .map_err(|error| error.within(start))
    }

    fn from_records(records: &[u8]) -> Result<Self> {
        let known = [
            TAG_FILE,
            TAG_HEAD,
            TAG_FRAMES,
            TAG_TENSORS,
            TAG_TABLES,
            TAG_HEADER,
            TAG_STATISTICS,
            TAG_CLAIMED,
        ];
        let [
            file,
            head,
            frames,
            tensors,
            tables,
            header,
            statistics,
            claimed,
        ] = tagged::read(records, known, Rule::ZstnIntegrity)?;
        // Each chunk has the length of an entry, so the conversions below
        // cannot fail.
        let checksums = |value: Value| -> Result<Vec<u64>> {
            let entries = value.entries(8)?;
            Ok(entries
                .map(|entry| u64::from_le_bytes(entry.try_into().unwrap_or_default()))
                .collect())
        };
        let lens = |value: Value| -> Result<Vec<u32>> {
            let entries = value.entries(4)?;
            Ok(entries
                .map(|entry| u32::from_le_bytes(entry.try_into().unwrap_or_default()))
                .collect())
        };
        let digests = |value: Value| -> Result<Vec<Digest>> {
            let entries = value.entries(32)?;
            Ok(entries
                .map(|entry| entry.try_into().unwrap_or_default())
                .collect())
        };
        let claimed = claimed.map(Value::array::<0>).transpose()?;
        let file = file.map(|value| read_file(value, claimed.is_some()));
        Ok(Self {
            file: file.transpose()?,
            head: head.map(read_head).transpose()?,
            frames: frames.map(checksums).transpose()?,
            tensors: tensors.map(digests).transpose()?,
            tables: tables.map(lens).transpose()?,
            header: header.map(|value| value.bytes.to_vec()),
            statistics: statistics.map(|value| value.bytes.to_vec()),
        })
    }

    /// Appends the bytes between the index and the footer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&VERSION.to_le_bytes());
        let mut record = |tag: Tag, value: &[u8]| tagged::write(out, tag, value);
        if let Some(file) = &self.file {
            let len_bytes = file.len_bytes.to_le_bytes();
            record(TAG_FILE, &[&len_bytes[..], &file.sha256].concat());
            if file.is_claimed {
                record(TAG_CLAIMED, &[]);
            }
        }
        if let Some(head) = &self.head {
            let sums = [head.prefix.to_le_bytes(), head.index.to_le_bytes()];
            record(TAG_HEAD, &sums.concat());
        }
        if let Some(frames) = &self.frames {
            let sums: Vec<u8> = frames.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            record(TAG_FRAMES, &sums);
        }
        if let Some(tensors) = &self.tensors {
            record(TAG_TENSORS, tensors.as_flattened());
        }
        if let Some(tables) = &self.tables {
            let lens: Vec<u8> = tables.iter().flat_map(|len| len.to_le_bytes()).collect();
            record(TAG_TABLES, &lens);
        }
        if let Some(header) = &self.header {
            record(TAG_HEADER, header);
        }
        if let Some(statistics) = &self.statistics {
            record(TAG_STATISTICS, statistics);
        }
        seal(out, start);
    }
}

/// Returns the records of the section that `after_index` contains, with their offset;
/// `None` if there is no section.
fn records(after_index: &[u8]) -> Result<Option<(u64, &[u8])>> {
    if after_index.is_empty() {
        return Ok(None);
    }
    let Some(front) = after_index.strip_suffix(&MAGIC) else {
        return Err(bad(format!(
            "the {} bytes between index and footer are not an integrity section: the file \
             is damaged, get it again",
            after_index.len()
        ))
        .at(0));
    };
    let Some((front, len)) = front.split_last_chunk::<8>() else {
        return Err(bad("the integrity section is cut off").at(0));
    };
    let (available, len) = (front.len() as u64, u64::from_le_bytes(*len));
    if len != available || len < 2 + CHECKSUM_BYTES {
        return Err(bad(format!(
            "an integrity section of {len} bytes does not fill the {available} bytes between \
             index and footer"
        ))
        .at(available));
    }
    let covered = part(front, 0..available - CHECKSUM_BYTES);
    let mut cursor = Cursor::new(part(front, available - CHECKSUM_BYTES..available));
    let stored = cursor.u64("checksum of the integrity section")?;
    if !agrees(stored, checksum([covered])) {
        return Err(bad("the integrity section does not match its checksum: it is damaged").at(0));
    }
    let mut cursor = Cursor::new(covered);
    let version = cursor.u16("version of the integrity section")?;
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "the integrity section has version {version}, and this program reads version \
             {VERSION}: use a newer zstn"
        )));
    }
    let start = cursor.position();
    Ok(Some((start as u64, &covered[start..])))
}

/// Returns the section that `after_index`, the bytes between index and footer, contains,
/// without the mark that its SHA-256 is claimed; `None` if there is no such mark.
///
/// # Errors
/// [`Rule::ZstnIntegrity`] for bytes that are not a section.
pub fn without_claim(after_index: &[u8]) -> Result<Option<Vec<u8>>> {
    let file = Section::parse(after_index)?.and_then(|section| section.file);
    let Some((_, records)) = records(after_index)?.filter(|_| file.is_some_and(|f| f.is_claimed))
    else {
        return Ok(None);
    };
    let mut out = VERSION.to_le_bytes().to_vec();
    tagged::copy_without(&mut out, TAG_CLAIMED, records)?;
    seal(&mut out, 0);
    Ok(Some(out))
}

/// Decodes the copy of a header of `header_len_bytes` that a section contains
/// (docs/formats/zstn-integrity.md 6). The result still has to be compared with
/// its checksum.
///
/// # Errors
/// The rule of the zstd format that the copy breaks, for example because it
/// decodes to another length.
pub fn decode_header_copy<E: Engine>(
    engine: &E,
    copy: &[u8],
    header_len_bytes: u64,
) -> Result<Vec<u8>> {
    zstd::check(copy, header_len_bytes)?;
    let mut header = buffer(header_len_bytes)?;
    zstd::decode(engine, copy, &mut header)?;
    Ok(header)
}

/// Completes the section that begins at `start` of `out` with its checksum, its length
/// and the magic.
fn seal(out: &mut Vec<u8>, start: usize) {
    let sum = checksum([&out[start..]]);
    out.extend_from_slice(&sum.to_le_bytes());
    let len = (out.len() - start) as u64;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&MAGIC);
}

fn bad(detail: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::malformed(Rule::ZstnIntegrity, detail)
}

fn read_file(value: Value, is_claimed: bool) -> Result<FileDigest> {
    let bytes: [u8; 40] = value.array()?;
    let mut cursor = Cursor::new(&bytes);
    Ok(FileDigest {
        len_bytes: cursor.u64("original length")?,
        sha256: cursor.array("digest")?,
        is_claimed,
    })
}

fn read_head(value: Value) -> Result<HeadChecksums> {
    let bytes: [u8; 16] = value.array()?;
    let mut cursor = Cursor::new(&bytes);
    Ok(HeadChecksums {
        prefix: cursor.u64("checksum of the header")?,
        index: cursor.u64("checksum of the index")?,
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::{FIXED_BYTES, *};

    fn bytes_of(section: &Section) -> Vec<u8> {
        let mut bytes = Vec::new();
        section.write(&mut bytes);
        bytes
    }

    fn section() -> Section {
        Section {
            file: Some(FileDigest {
                len_bytes: 77,
                sha256: [3; 32],
                is_claimed: false,
            }),
            head: Some(HeadChecksums {
                prefix: 1,
                index: u64::MAX,
            }),
            frames: Some(vec![5, 6]),
            tensors: Some(vec![[7; 32], [8; 32]]),
            tables: Some(vec![0, 99]),
            header: None,
            statistics: None,
        }
    }

    /// Returns a payload followed by its checksum and trailer.
    fn framed(mut payload: Vec<u8>) -> Vec<u8> {
        payload.extend_from_slice(&checksum([payload.as_slice()]).to_le_bytes());
        let len = payload.len() as u64;
        [payload, len.to_le_bytes().to_vec(), MAGIC.to_vec()].concat()
    }

    fn rule(after_index: &[u8]) -> Option<Rule> {
        Section::parse(after_index).expect_err("malformed").rule()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = bytes_of(&section());
        assert_eq!(bytes.len() as u64, FIXED_BYTES + 2 * 44);
        assert_eq!(Section::parse(&bytes), Ok(Some(section())));
        let none = Section::default();
        assert_eq!(Section::parse(&bytes_of(&none)), Ok(Some(none)));
    }

    #[test]
    fn bytes_that_are_no_section_are_refused() {
        assert_eq!(Section::parse(b""), Ok(None));
        let after_others = [b"other bytes".to_vec(), bytes_of(&section())].concat();
        for after_index in [&b"Z"[..], b"something else", &after_others] {
            assert_eq!(rule(after_index), Some(Rule::ZstnIntegrity));
        }
    }

    #[test]
    fn unknown_records_are_skipped_and_unknown_versions_refused() {
        let mut payload = VERSION.to_le_bytes().to_vec();
        payload.extend_from_slice(b"XTRA\x03\0\0\0\0\0\0\0abc");
        assert_eq!(
            Section::parse(&framed(payload)),
            Ok(Some(Section::default()))
        );
        let later = [&2u16.to_le_bytes()[..], b"anything"].concat();
        let error = Section::parse(&framed(later)).expect_err("unsupported");
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    }

    #[test]
    fn every_flip_and_every_cut_is_found() {
        let bytes = bytes_of(&section());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(rule(&flipped), Some(Rule::ZstnIntegrity), "bit {bit}");
        }
        for at in 1..bytes.len() {
            assert_eq!(rule(&bytes[at..]), Some(Rule::ZstnIntegrity), "{at}");
            assert_eq!(rule(&bytes[..at]), Some(Rule::ZstnIntegrity), "{at}");
        }
    }

    #[test]
    fn records_of_other_lengths_are_refused() {
        for (tag, len) in [
            (b"FILE", 39),
            (b"HEAD", 24),
            (b"FRMS", 9),
            (b"TENS", 33),
            (b"BLKS", 7),
            (b"CLMD", 1),
        ] {
            let value = vec![0; len];
            let length = (len as u64).to_le_bytes();
            let record = [&tag[..], &length, &value].concat();
            let version = VERSION.to_le_bytes();
            let once = [&version[..], &record].concat();
            assert_eq!(rule(&framed(once)), Some(Rule::ZstnIntegrity));
            let long = [&version[..], tag, &u64::MAX.to_le_bytes()].concat();
            assert_eq!(rule(&framed(long)), Some(Rule::Truncated));
        }
        let empty = [&b"FRMS"[..], &[0; 8]].concat();
        let twice = [&VERSION.to_le_bytes()[..], &empty, &empty].concat();
        assert_eq!(rule(&framed(twice)), Some(Rule::ZstnIntegrity));
    }
}
