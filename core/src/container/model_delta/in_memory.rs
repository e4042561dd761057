//! Deltas and bases whose whole files are in memory.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use super::{BaseHeader, DataDigest, DeltaTable};
use crate::bytes::{self, index, part};
use crate::engine::Engine;
use crate::{Error, Result};

/// A base whose whole file is in memory.
#[derive(Debug)]
pub struct Base<'a> {
    file: &'a [u8],
    header: BaseHeader,
}

impl<'a> Base<'a> {
    /// Parses the header of the safetensors file `file`.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = BaseHeader::parse(file, file.len() as u64)?;
        Ok(Self { file, header })
    }

    /// Returns the parsed header.
    #[must_use]
    pub fn header(&self) -> &BaseHeader {
        &self.header
    }

    /// Returns the range of the tensor called `name` in the base's file, if
    /// there is one.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        self.header.range(name)
    }

    /// Returns the bytes in `range` of the file.
    pub(super) fn part(&self, range: Range<u64>) -> &'a [u8] {
        part(self.file, range)
    }

    /// Returns the [`DataDigest`] of the base.
    #[must_use]
    pub fn digest(&self) -> [u8; 8] {
        let mut digest = DataDigest::default();
        digest.update(self.part(self.header.data()));
        digest.finish()
    }
}

/// A delta whose whole file is in memory.
#[derive(Debug)]
pub struct ModelDelta<'a> {
    file: &'a [u8],
    table: DeltaTable,
}

impl Deref for ModelDelta<'_> {
    type Target = DeltaTable;

    fn deref(&self) -> &DeltaTable {
        &self.table
    }
}

impl<'a> ModelDelta<'a> {
    /// Parses the prefix, the records and the trailer, and checks that they
    /// agree.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let mut fetch = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
        let table = DeltaTable::read(file.len() as u64, &mut fetch)?;
        Ok(Self { file, table })
    }

    /// Decodes the tensor of record `number` against `base`.
    pub fn decode<'b, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        base: &Base<'b>,
    ) -> Result<Cow<'b, [u8]>> {
        let payload = part(self.file, self.table.record(number)?.payload.clone());
        let reference = self.table.reference(number, base.header())?;
        let reference = reference.map(|range| base.part(range));
        self.table.decode(engine, number, payload, reference)
    }

    /// Restores the whole target. All checks are made: the lengths, the base,
    /// overlapping tensors, and the digest of the result if there is one.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a delta whose target and base are
    /// not safetensors files.
    pub fn unpack<E: Engine>(&self, engine: &E, base: &Base) -> Result<Vec<u8>> {
        if self.has_virtual_header() {
            return Err(Error::unsupported(
                "the delta restores a file that is not safetensors; restore it with `zstn unpack`",
            ));
        }
        self.check_base(base.header(), base.digest())?;
        let numbers: Vec<usize> = (0..self.records().len()).collect();
        let tensors = engine
            .map(numbers, |number| self.decode(engine, number, base))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        // Decoding all tensors has shown that the data have this length.
        let mut out = Vec::new();
        let header = self.header();
        out.extend_from_slice(&(header.len() as u64).to_le_bytes());
        out.extend_from_slice(header);
        let data_start = out.len();
        let len_bytes = (data_start as u64).saturating_add(self.data_len_bytes());
        bytes::resize(&mut out, len_bytes)?;
        for (record, tensor) in self.records().iter().zip(&tensors) {
            let dest = &mut out[data_start..][index(record.span.start)..index(record.span.end)];
            dest.copy_from_slice(tensor);
        }
        let data = &out[data_start..];
        for (record, tensor) in self.records().iter().zip(&tensors) {
            self.check_shared(record, part(data, record.span.clone()), tensor)?;
        }
        if let Some(check) = self.restored_check() {
            check.with(&out).finish()?;
        }
        Ok(out)
    }
}
