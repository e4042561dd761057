//! Numbers, signatures and checksums of an HDF5 file, and its superblock
//! (docs/formats/hdf5.md 1).

use alloc::borrow::Cow;
use alloc::format;

use super::lookup3::lookup3;
use crate::container::foreign::random_access::{Fetched, RandomAccess, Read, Stop};
use crate::{Error, Rule};

/// The length in bytes of the blocks in which missing bytes are requested. The
/// head of a file is no longer than one of them.
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;

/// The first bytes of the superblock.
pub(super) const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// The lengths of addresses and of lengths in bytes, each 4 or 8.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub address: u64,
    pub length: u64,
}

/// A file, with the properties that its superblock states.
pub(super) struct File<'f, 'a> {
    pub access: RandomAccess<'f, 'a>,
    pub sizes: Sizes,
    /// The offset that addresses count from: the length of the user block.
    base: u64,
}

/// Continues after missing bytes, which have been noted, so that all missing bytes are
/// requested at the same time.
pub(super) fn unless_refused(read: Read<()>) -> Read<()> {
    match read {
        Ok(()) | Err(Stop::Missing) => Ok(()),
        refused => refused,
    }
}

pub(super) fn refuse(rule: Rule, detail: impl Into<Cow<'static, str>>, at: u64) -> Error {
    Error::malformed(rule, detail).at(at)
}

/// Returns the offset of the superblock in the first bytes of a file: 0, or a
/// power of two from 512.
pub(crate) fn superblock_at(head: &[u8]) -> Option<u64> {
    let places = core::iter::once(0).chain((9..32).map(|shift| 1usize << shift));
    let mut places = places.take_while(|at| *at < head.len());
    let found = places.find(|at| {
        head.get(*at..)
            .is_some_and(|rest| rest.starts_with(SIGNATURE))
    });
    found.map(|at| at as u64)
}

impl<'f, 'a> File<'f, 'a> {
    /// Reads the superblock at `base`. Returns the file and the address of the
    /// root group's header.
    pub fn open(fetched: &'f Fetched<'a>, len_bytes: u64, base: u64) -> (Self, Read<u64>) {
        let mut file = Self {
            access: RandomAccess::new(fetched, len_bytes, BLOCK_BYTES, Rule::Hdf5Extent),
            sizes: Sizes {
                address: 8,
                length: 8,
            },
            base,
        };
        let root = file.superblock();
        (file, root)
    }

    fn superblock(&mut self) -> Read<u64> {
        let base = self.base;
        let cut = |detail: &'static str| refuse(Rule::Hdf5Truncated, detail, base);
        let left = self.access.len_bytes().saturating_sub(base);
        if left < 48 {
            return Err(cut("the file ends inside of its superblock").into());
        }
        let head: [u8; 24] = self.access.array(base)?;
        if !head.starts_with(SIGNATURE) {
            let detail = "the file does not have the signature of HDF5";
            return Err(refuse(Rule::Hdf5Superblock, detail, base).into());
        }
        let version = head[8];
        let (sizes_at, start) = match version {
            0 => (13, 24),
            1 => (13, 28),
            2 | 3 => (9, 12),
            _ => {
                let detail = format!("version {version} of the superblock is unknown");
                return Err(refuse(Rule::Hdf5Superblock, detail, base + 8).into());
            }
        };
        let (address, length) = (head[sizes_at], head[sizes_at + 1]);
        if !matches!((address, length), (4 | 8, 4 | 8)) {
            let detail =
                format!("addresses of {address} bytes and lengths of {length} are unknown");
            return Err(refuse(Rule::Hdf5Superblock, detail, base).into());
        }
        self.sizes = Sizes {
            address: address.into(),
            length: length.into(),
        };
        let step = self.sizes.address;
        // The addresses of the base, of free space or an extension, of the end, and
        // of a driver or the root.
        let len = start + 4 * step + if version < 2 { 2 * step + 24 } else { 4 };
        if left < len {
            return Err(cut("the file ends inside of its superblock").into());
        }
        if version >= 2 {
            self.checked(base, len, Rule::Hdf5Superblock)?;
        }
        // The end counts from the beginning of the file, even after a user block.
        let end = self.number(base + start + 2 * step, step)?;
        if self.offset(end).is_some() && end > self.access.len_bytes() {
            let detail = format!(
                "the file has {} bytes, and its superblock states {end}; it is cut",
                self.access.len_bytes()
            );
            return Err(refuse(Rule::Hdf5Truncated, detail, base).into());
        }
        let root_at = base + start + step * if version < 2 { 5 } else { 3 };
        let root = self.address(root_at)?;
        Ok(root
            .ok_or_else(|| refuse(Rule::Hdf5Superblock, "the file has no root group", root_at))?)
    }

    pub fn bytes(&mut self, at: u64, len_bytes: u64) -> Read<Cow<'a, [u8]>> {
        self.access.bytes(at, len_bytes)
    }

    /// Reads a number of 1 to 8 bytes.
    pub fn number(&mut self, at: u64, len_bytes: u64) -> Read<u64> {
        Ok(number(&self.bytes(at, len_bytes)?))
    }

    /// Reads an address, and returns its offset in the file; `None` if all of its
    /// bits are set.
    pub fn address(&mut self, at: u64) -> Read<Option<u64>> {
        let address = self.number(at, self.sizes.address)?;
        Ok(self.offset(address))
    }

    /// Returns the offset of an address in the file; `None` if all of its bits are
    /// set.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let none = u64::MAX >> (64 - 8 * self.sizes.address);
        (address != none).then(|| self.base.saturating_add(address))
    }

    pub fn length(&mut self, at: u64) -> Read<u64> {
        self.number(at, self.sizes.length)
    }

    /// Returns the fields of `bytes`, which are at `at` in the file.
    pub fn fields<'b>(&self, bytes: &'b [u8], at: u64, rule: Rule) -> Fields<'b> {
        Fields {
            bytes,
            at,
            sizes: self.sizes,
            rule,
        }
    }

    /// Checks the four bytes `signature` at `at`.
    pub fn expect(&mut self, at: u64, signature: &[u8; 4], rule: Rule) -> Read<()> {
        let bytes = self.bytes(at, 4)?;
        Ok(signed(&bytes, signature, at, rule)?)
    }

    /// Returns `len_bytes` bytes, of which the last four are a checksum of the
    /// others. Fewer than four break `rule`.
    pub fn checked(&mut self, at: u64, len_bytes: u64, rule: Rule) -> Read<Cow<'a, [u8]>> {
        let bytes = self.bytes(at, len_bytes)?;
        matches_checksum(&bytes, at, rule)?;
        Ok(bytes)
    }

    /// Returns the `len_bytes` bytes of a structure: its signature, the version 0,
    /// fields, and a checksum of all bytes before it.
    pub fn structure(
        &mut self,
        at: u64,
        len_bytes: u64,
        signature: &[u8; 4],
        rule: Rule,
    ) -> Read<Cow<'a, [u8]>> {
        let bytes = self.bytes(at, len_bytes)?;
        signed(&bytes, signature, at, rule)?;
        matches_checksum(&bytes, at, rule)?;
        match bytes.get(4) {
            Some(0) => Ok(bytes),
            _ => {
                let name = signature.escape_ascii();
                let detail = format!("the version of a {name} is unknown");
                Err(refuse(rule, detail, at).into())
            }
        }
    }
}

fn signed(bytes: &[u8], signature: &[u8; 4], at: u64, rule: Rule) -> Result<(), Error> {
    if bytes.starts_with(signature) {
        return Ok(());
    }
    let name = signature.escape_ascii();
    let detail = format!("there is no {name} at an address of one");
    Err(refuse(rule, detail, at))
}

fn matches_checksum(bytes: &[u8], at: u64, rule: Rule) -> Result<(), Error> {
    let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(refuse(rule, "a structure is too short for a checksum", at));
    };
    match lookup3(content) == u32::from_le_bytes(*stored) {
        true => Ok(()),
        false => Err(wrong_checksum(at)),
    }
}

pub(super) fn wrong_checksum(at: u64) -> Error {
    refuse(
        Rule::Hdf5Checksum,
        "a structure does not match its checksum",
        at,
    )
}

/// Returns the number that up to eight bytes are.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads the fields of a message one after the other.
#[derive(Debug, Clone)]
pub(super) struct Fields<'b> {
    pub bytes: &'b [u8],
    /// The offset of the next field in the file.
    pub at: u64,
    pub sizes: Sizes,
    /// The rule that a field outside of the message breaks.
    pub rule: Rule,
}

impl<'b> Fields<'b> {
    pub fn take(&mut self, len_bytes: u64) -> Result<&'b [u8], Error> {
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            let detail = "a message ends before its last field";
            return Err(refuse(self.rule, detail, self.at));
        };
        self.bytes = rest;
        self.at += len_bytes;
        Ok(taken)
    }

    pub fn number(&mut self, len_bytes: u64) -> Result<u64, Error> {
        self.take(len_bytes).map(number)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    pub fn address(&mut self) -> Result<u64, Error> {
        self.number(self.sizes.address)
    }

    pub fn length(&mut self) -> Result<u64, Error> {
        self.number(self.sizes.length)
    }

    /// Takes bytes up to a zero byte, which is skipped.
    pub fn text(&mut self) -> Result<&'b [u8], Error> {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| refuse(self.rule, "a name has no end", self.at))?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Ok(text)
    }
}
