//! The records of a delta, encoded one by one, and the digests of both files.

use alloc::vec::Vec;
use core::ops::Range;

use super::super::base::{BaseHeader, DataDigest};
use super::super::trailer::RecordInfo;
use super::super::write::{self, DeltaPacker};
use super::DeltaOptions;
use crate::Result;
use crate::bytes::part;
use crate::container::safetensors::HeaderTensor;
use crate::engine::PackEngine;
use crate::frame::Edition;

/// The longest range of the base, in bytes, that is requested only for the
/// digest.
const DIGESTED_BYTES: u64 = 16 << 20;

/// The ranges of both files that are required next. Either may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The range of the file being packed.
    pub target: Range<u64>,
    /// The range of the base.
    pub base: Range<u64>,
}

/// The state of packing between two records.
#[derive(Debug)]
pub struct Records {
    pub target: DeltaPacker,
    pub base: BaseHeader,
    options: DeltaOptions,
    /// The trailer entries of the records encoded so far.
    pub infos: Vec<RecordInfo>,
    /// The edition that these records require of the file.
    pub edition: Edition,
    pub target_digest: blake3::Hasher,
    pub base_digest: DataDigest,
    /// The offset in the base's file up to which `base_digest` covers it.
    digested: u64,
    pub prefix: Option<Vec<u8>>,
}

impl Records {
    pub fn new(target: DeltaPacker, base: BaseHeader, options: DeltaOptions) -> Self {
        let mut target_digest = blake3::Hasher::new();
        target_digest.update(&target.file_head());
        Self {
            digested: base.data().start,
            target,
            base,
            options,
            infos: Vec::new(),
            edition: Edition::Plain,
            target_digest,
            base_digest: DataDigest::default(),
            prefix: None,
        }
    }

    pub(crate) fn is_digested(&self) -> bool {
        self.digested == self.base.data().end
    }

    /// Returns the offset up to which the base must be digested before the next
    /// record: the end of the base, or the start of the tensor that the record
    /// is compared with.
    fn digest_goal(&self) -> u64 {
        let end = self.base.data().end;
        match self.target.tensors().get(self.infos.len()) {
            Some(tensor) if self.options.is_prefix_last() => {
                let reference = self.base.reference(tensor);
                reference.map_or(self.digested, |range| range.start)
            }
            _ => end,
        }
    }

    /// Returns the tensor of the next record, or `None` while the base must be
    /// digested first.
    pub fn current(&self) -> Option<&HeaderTensor> {
        let is_record = self.digest_goal() <= self.digested;
        let tensor = is_record.then(|| self.target.tensors().get(self.infos.len()));
        tensor.flatten()
    }

    /// Returns the ranges that are required next.
    pub fn wanted(&self) -> Needs {
        let Some(tensor) = self.current() else {
            let end = self.digest_goal().min(self.digested + DIGESTED_BYTES);
            return Needs {
                target: 0..0,
                base: self.digested..end,
            };
        };
        Needs {
            target: self.target.range(tensor),
            base: self.base.reference(tensor).unwrap_or(0..0),
        }
    }

    /// Takes the bytes of the ranges that [`Records::wanted`] has returned;
    /// `range` is the one of the base. Returns the next record, or no bytes
    /// while the base is only digested.
    pub fn next<E: PackEngine>(
        &mut self,
        engine: &E,
        target: &[u8],
        base: &[u8],
        range: &Range<u64>,
    ) -> Result<Vec<u8>> {
        let tensor = self.current().cloned();
        if range.start <= self.digested && self.digested < range.end {
            let new = self.digested - range.start..range.end - range.start;
            self.base_digest.update(part(base, new));
            self.digested = range.end;
        }
        let Some(tensor) = tensor else {
            return Ok(Vec::new());
        };
        self.target_digest.update(target);
        let reference = self.base.reference(&tensor).map(|_| base);
        let coded = write::code(engine, &tensor, target, reference, self.options.encode)?;
        self.edition = self.edition.max(coded.edition);
        self.infos.push(coded.info);
        Ok(coded.record)
    }

    /// Returns the number of bytes of the base that are read a second time. The
    /// first `known_bytes` of the file are never read again.
    pub(crate) fn repeated_bytes(&self, known_bytes: u64) -> u64 {
        let data = self.base.data();
        let mut digested = match self.options.is_prefix_last() {
            true => data.start,
            false => data.end,
        };
        let tensors = self.target.tensors().iter();
        let references = tensors.filter_map(|tensor| self.base.reference(tensor));
        references
            .map(|Range { start, end }| {
                let again = end.min(digested).saturating_sub(start.max(known_bytes));
                digested = digested.max(end);
                again
            })
            .sum()
    }
}
