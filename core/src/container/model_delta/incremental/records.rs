//! The records of a delta, one after the other, and the digests around them.

use alloc::vec::Vec;
use core::ops::Range;

use super::super::base::{BaseHeader, DataDigest};
use super::super::trailer::RecordInfo;
use super::super::write::{self, DeltaPacker};
use super::DeltaOptions;
use crate::Result;
use crate::bytes::part;
use crate::container::safetensors::Tensor;
use crate::engine::PackEngine;
use crate::frame::Edition;

/// The longest range of the base that is read only for its digest.
const DIGESTED_BYTES: u64 = 16 << 20;

/// The ranges of both files that are needed next. Either may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The range of the file that is packed.
    pub target: Range<u64>,
    /// The range of its base.
    pub base: Range<u64>,
}

/// The state of packing between two records.
#[derive(Debug)]
pub struct Records {
    pub target: DeltaPacker,
    pub base: BaseHeader,
    options: DeltaOptions,
    /// One for every record so far.
    pub infos: Vec<RecordInfo>,
    /// The latest edition of these records.
    pub edition: Edition,
    pub target_digest: blake3::Hasher,
    pub base_digest: DataDigest,
    /// The end of what `base_digest` has seen of the base's file.
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

    pub fn is_digested(&self) -> bool {
        self.digested == self.base.data().end
    }

    /// Returns the position up to which the base has to be digested before the
    /// next record: its end, or the start of the tensor that is read next.
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

    /// Returns the tensor whose record is next; `None` while the base has to be
    /// digested first.
    pub fn current(&self) -> Option<&Tensor> {
        let is_record = self.digest_goal() <= self.digested;
        let tensor = is_record.then(|| self.target.tensors().get(self.infos.len()));
        tensor.flatten()
    }

    /// Returns the ranges that are needed next.
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

    /// Takes the bytes of those ranges, of which `range` is the base's. Returns
    /// the next record, if there is one.
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

    /// Returns the length of what is read of the base a second time; its first
    /// `known_bytes` are not.
    pub fn repeated_bytes(&self, known_bytes: u64) -> u64 {
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
