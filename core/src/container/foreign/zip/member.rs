//! A member of an archive: where its data are, and how they are unpacked
//! (docs/formats/zip.md 3).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use serde::{Deserialize, Serialize};

use super::super::pytorch::cut;
use super::inflate::{self, inflate, inflate_start};
use crate::bytes::{Cursor, index, part};
use crate::checksum::agrees;
use crate::{Error, Result, Rule};

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

const LOCAL: [u8; 4] = *b"PK\x03\x04";

/// The length of a local header without name and extra fields.
pub(super) const LOCAL_LEN_BYTES: u64 = 30;

/// The lengths of the copy of lengths and checksum that follows the data of a member, if
/// its flags announce one. The second contains fields of 64 bits.
const DESCRIPTOR_LEN_BYTES: [u64; 2] = [16, 24];

/// PyTorch begins the data of every member at a multiple of a power of two, which is 64
/// unless the writer of the file chose another one. These are the exponents of the least
/// and of the largest one; an extra field of 16 bits cannot pad to more.
const MIN_ALIGNMENT_EXPONENT: u32 = 6;
const MAX_ALIGNMENT_EXPONENT: u32 = 16;

/// The least length of the extra field with which PyTorch aligns data, and of its
/// 64-bit fields.
const PADDING_LEN_BYTES: u64 = 4;
const EXTRA_64_LEN_BYTES: [u64; 4] = [0, 12, 20, 28];

/// An entry of the directory.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub name: String,
    pub name_len_bytes: u64,
    pub method: u16,
    pub is_encrypted: bool,
    pub has_descriptor: bool,
    /// How the data are unpacked, or the reason why they cannot be.
    pub packing: Result<Packing>,
    pub crc: u32,
    /// The lengths of the data in the file, and after unpacking.
    pub stored_len_bytes: u64,
    pub len_bytes: u64,
    /// The offset of the local header in the file.
    pub local: u64,
    /// The offset at which the next member or the directory begins.
    pub end: u64,
}

impl Member {
    fn refuse(&self, what: &str) -> Error {
        self.entry().refuse(what).within(self.local)
    }

    /// Returns the range of the local header up to the end of its name, which
    /// [`Member::data`] requires.
    pub(crate) fn header(&self) -> Range<u64> {
        self.local..self.local + LOCAL_LEN_BYTES + self.name_len_bytes
    }

    /// Returns the range of the data, given the bytes of [`Member::header`].
    ///
    /// # Errors
    /// [`Rule::ZipMember`] if the local header differs from the directory, or the data
    /// reach beyond the member.
    pub(crate) fn data(&self, header: &[u8]) -> Result<Range<u64>> {
        let header = self.entry().header_len_bytes(header);
        let start = self.local + header.map_err(|error| error.within(self.local))?;
        // The stored length is below the length of the file.
        let end = start + self.stored_len_bytes;
        if end > self.end {
            return Err(self.refuse("reaches beyond the next one"));
        }
        Ok(start..end)
    }

    /// Returns those fields of the entry that the local header repeats.
    fn entry(&self) -> Entry {
        Entry {
            name: self.name.clone(),
            method: self.method,
            is_encrypted: self.is_encrypted,
            crc: self.crc,
            stored_len_bytes: self.stored_len_bytes,
            len_bytes: self.len_bytes,
        }
    }
}

/// The fields of an entry of the directory that the local header of the member repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    method: u16,
    is_encrypted: bool,
    crc: u32,
    stored_len_bytes: u64,
    len_bytes: u64,
}

impl Entry {
    /// Returns an error about the member, which begins at the offset 0.
    fn refuse(&self, what: &str) -> Error {
        let detail = format!("the member `{}` {what}", cut(&self.name));
        Error::malformed(Rule::ZipMember, detail).at(0)
    }

    /// Compares a local header with the entry. Returns its length with name and extra
    /// fields, which `header` need not contain.
    ///
    /// # Errors
    /// [`Rule::ZipMember`] if they differ.
    fn header_len_bytes(&self, header: &[u8]) -> Result<u64> {
        let mut cursor = Cursor::new(header);
        let cut = |_| self.refuse("ends inside its header");
        if cursor.array::<4>("the signature").map_err(cut)? != LOCAL {
            return Err(self.refuse("does not begin with a local header"));
        }
        cursor.take(2, "the version").map_err(cut)?;
        let flags = cursor.u16("the flags").map_err(cut)?;
        let method = cursor.u16("the method").map_err(cut)?;
        cursor.take(4, "the time").map_err(cut)?;
        let crc = cursor.u32("the checksum").map_err(cut)?;
        let stored_len = cursor.u32("the stored length").map_err(cut)?;
        let len = cursor.u32("the length").map_err(cut)?;
        let name_len = cursor.u16("the length of the name").map_err(cut)?;
        let extra_len = cursor.u16("the length of extra fields").map_err(cut)?;
        let name = cursor.take(name_len.into(), "the name").map_err(cut)?;
        // Lengths that follow the data, or are in an extra field, have no value here.
        let is_len = |narrow: u32, known: u64| narrow == u32::MAX || u64::from(narrow) == known;
        let has_lens = is_len(stored_len, self.stored_len_bytes) && is_len(len, self.len_bytes);
        let is_same = name == self.name.as_bytes()
            && method == self.method
            && flags & 1 == u16::from(self.is_encrypted)
            && (flags & 8 != 0 || (has_lens && crc == self.crc));
        if !is_same {
            return Err(self.refuse("differs from its entry in the directory"));
        }
        Ok(LOCAL_LEN_BYTES + name.len() as u64 + u64::from(extra_len))
    }
}

impl Member {
    /// Returns the range of the data of a member that has no bytes besides its header, its
    /// name and its data. A local header that states another place is one that
    /// [`Member::data`] refuses.
    pub(crate) fn only_data(&self) -> Option<Range<u64>> {
        let data = self.header().end..self.end;
        (data.end.checked_sub(data.start)? == self.stored_len_bytes).then_some(data)
    }

    /// Returns the range of the data if the member has the layout of PyTorch, in which the
    /// place that follows from the beginning of the member is the one that follows from its
    /// end (docs/formats/zip.md 3).
    pub(crate) fn padded_data(&self) -> Option<Range<u64>> {
        if !self.has_descriptor || self.method != 0 {
            return None;
        }
        let least = self.header().end.checked_add(PADDING_LEN_BYTES)?;
        let mut places = DESCRIPTOR_LEN_BYTES.iter().filter_map(|descriptor| {
            let end = self.end.checked_sub(*descriptor)?;
            Some(end.checked_sub(self.stored_len_bytes)?..end)
        });
        places.find(|place| {
            let exponent = place.start.trailing_zeros().min(MAX_ALIGNMENT_EXPONENT);
            let is_padded = |extra: &u64| {
                let unpadded = least.checked_add(*extra);
                let start = unpadded.and_then(|at| at.checked_next_multiple_of(1 << exponent));
                start == Some(place.start)
            };
            exponent >= MIN_ALIGNMENT_EXPONENT && EXTRA_64_LEN_BYTES.iter().any(is_padded)
        })
    }
}

/// A local header that has not been compared with the directory yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UnreadHeader {
    entry: Entry,
    /// The length of the header with name and extra fields, as it follows from the
    /// directory.
    len_bytes: u64,
}

impl UnreadHeader {
    /// Compares the header at the start of `stored` with the directory, and returns the
    /// bytes after it.
    ///
    /// # Errors
    /// [`Rule::ZipMember`] if they differ.
    fn strip<'a>(&self, stored: &'a [u8]) -> Result<&'a [u8]> {
        let len = index(self.len_bytes);
        let header = stored.get(..len).unwrap_or_default();
        if self.entry.header_len_bytes(header)? != self.len_bytes {
            let detail = "has a local header that states another place of its data";
            return Err(self.entry.refuse(detail));
        }
        Ok(stored.get(len..).unwrap_or_default())
    }
}

/// How stored bytes become the bytes of a member, or of a part of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The length of the whole member, if it is deflated.
    inflated_len_bytes: Option<u64>,
    /// The bytes of the member that are used.
    used: Range<u64>,
    /// The checksum of the bytes of the member before the stored ones, and of the
    /// whole member; `None` if only a part of the member is stored.
    checksums: Option<[u32; 2]>,
    /// The local header, if the stored bytes begin with it.
    header: Option<Box<UnreadHeader>>,
}

impl Packing {
    /// Creates the packing of bytes that are stored as they are.
    pub(super) fn stored(len_bytes: u64, crc: u32) -> Self {
        Self {
            inflated_len_bytes: None,
            used: 0..len_bytes,
            checksums: Some([0, crc]),
            header: None,
        }
    }

    /// Creates the packing of a deflated member.
    ///
    /// # Errors
    /// [`Rule::ZipMember`] if that number of stored bytes cannot be inflated to so
    /// many.
    pub(super) fn deflated(stored_len_bytes: u64, len_bytes: u64, crc: u32) -> Result<Self> {
        inflate::check_len(stored_len_bytes, len_bytes)?;
        Ok(Self {
            inflated_len_bytes: Some(len_bytes),
            used: 0..len_bytes,
            checksums: Some([0, crc]),
            header: None,
        })
    }

    /// Creates the packing of bytes outside an archive.
    pub(crate) fn plain(len_bytes: u64) -> Self {
        Self {
            inflated_len_bytes: None,
            used: 0..len_bytes,
            checksums: None,
            header: None,
        }
    }

    /// Reads the bytes of `member`, whose data are at `data` according to the directory,
    /// together with its local header, if they begin with its first byte. The header is
    /// then compared with the directory.
    pub(crate) fn with_header(self, member: &Member, data: &Range<u64>) -> Self {
        let header = UnreadHeader {
            entry: member.entry(),
            len_bytes: data.start.saturating_sub(member.local),
        };
        Self {
            header: Some(header.into()),
            ..self
        }
    }

    /// Returns the number of stored bytes in front of the data of the member.
    pub(crate) fn header_len_bytes(&self) -> u64 {
        self.header.as_ref().map_or(0, |header| header.len_bytes)
    }

    /// Leaves out a checksum of 0, which stands for none in PyTorch files.
    pub(crate) fn without_zero_checksum(self) -> Self {
        Self {
            checksums: self.checksums.filter(|[_, whole]| *whole != 0),
            ..self
        }
    }

    /// Returns whether the whole member has to be inflated to read any of it.
    pub(crate) fn is_inflated(&self) -> bool {
        self.inflated_len_bytes.is_some()
    }

    /// Returns the length in bytes of the member once it is inflated; 0 if it is stored as
    /// it is.
    pub(crate) fn inflated_len_bytes(&self) -> u64 {
        self.inflated_len_bytes.unwrap_or(0)
    }

    /// Limits the packing to the bytes `range` of the member, whose data are at
    /// `data`. `before` contains the bytes of the member in front of the range, or is
    /// empty if they are not known. Returns the range of the file to fetch with it.
    pub(crate) fn part(
        &self,
        data: &Range<u64>,
        range: Range<u64>,
        before: &[u8],
    ) -> (Self, Range<u64>) {
        if let Some(len_bytes) = self.inflated_len_bytes {
            let part = Self {
                checksums: self.checksums.filter(|_| range.end == len_bytes),
                used: range,
                ..self.clone()
            };
            return (part, data.start - self.header_len_bytes()..data.end);
        }
        let is_rest = range.start == before.len() as u64 && range.end == self.used.end;
        let checksums = self.checksums.filter(|_| is_rest && !range.is_empty());
        let part = Self {
            inflated_len_bytes: None,
            used: 0..range.end - range.start,
            checksums: checksums.map(|[_, whole]| [CRC32.checksum(before), whole]),
            header: self.header.clone().filter(|_| range.start == 0),
        };
        let start = data.start + range.start;
        let end = start + (range.end - range.start);
        let start = start - part.header_len_bytes();
        (part, start..end)
    }

    /// Unpacks stored bytes. They are borrowed unless they have to be inflated.
    ///
    /// # Errors
    /// [`Rule::ZipMember`] if the local header differs from the directory, or the stored
    /// bytes do not inflate to the length of the member, and [`Rule::ZipChecksum`] if they differ from its checksum. The latter
    /// is compared if the bytes that are used reach to the end of the member.
    pub(crate) fn unpack<'a>(&self, stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let stored = match &self.header {
            Some(header) => header.strip(stored)?,
            None => stored,
        };
        let member: Cow<[u8]> = match self.inflated_len_bytes {
            // The stream is not inflated beyond the bytes that are used.
            Some(len_bytes) if self.checksums.is_none() && self.used.end < len_bytes => {
                let start = inflate_start(stored, self.used.end)?;
                if (start.len() as u64) < self.used.end {
                    let detail = "a deflated member ends before the bytes that are used";
                    return Err(Error::malformed(Rule::ZipMember, detail));
                }
                start.into()
            }
            Some(len_bytes) => inflate(stored, len_bytes)?.into(),
            None => stored.into(),
        };
        if let Some([before, expected]) = self.checksums
            && !agrees(expected, checksum_after(before, &member))
        {
            let detail = "the bytes of the member differ from their checksum";
            return Err(Error::malformed(Rule::ZipChecksum, detail));
        }
        if self.used.end > member.len() as u64 {
            return Err(Error::invalid_input("these are not the stored bytes"));
        }
        Ok(match member {
            Cow::Borrowed(member) => part(member, self.used.clone()).into(),
            Cow::Owned(member) if self.used == (0..member.len() as u64) => member.into(),
            Cow::Owned(member) => part(&member, self.used.clone()).to_vec().into(),
        })
    }
}

/// Returns the CRC-32 of bytes that follow others with the CRC-32 `before`.
pub(crate) fn checksum_after(before: u32, bytes: &[u8]) -> u32 {
    // The register after the first bytes, in the order of bits that the crate expects.
    let register = (before ^ u32::MAX).reverse_bits();
    let mut digest = CRC32.digest_with_initial(register);
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_can_be_continued() {
        let bytes = b"123456789";
        assert_eq!(CRC32.checksum(bytes), 0xcbf4_3926);
        for at in 0..=bytes.len() {
            let (before, after) = bytes.split_at(at);
            let continued = checksum_after(CRC32.checksum(before), after);
            assert_eq!(continued, 0xcbf4_3926, "{at}");
        }
    }
}
