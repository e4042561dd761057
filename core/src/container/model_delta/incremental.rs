//! Packs a safetensors file against a base tensor by tensor, for callers that
//! do their own reads and writes, such as a web page, a stream or a server.
//!
//! The result is identical to that of [`super::pack`]. The prefix of a delta
//! contains a digest of all data of the base. If the tensors come in the order
//! of the base's tensors, computing the digest needs no further reads, but it
//! is only known at the end: see [`DeltaOptions::prefix_last`].

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::encode::code;
use super::pairs::Pairs;
use super::record::RecordKind;
use super::trailer::RecordInfo;
use super::write::{DeltaOptions, DeltaPacker, TargetHash};
use super::{BaseHeader, DataDigest, refuse_packed, version};
use crate::bytes::{index, part};
use crate::container::safetensors::{self, HeaderTensor, PREFIX_BYTES};
use crate::container::{FileHead, VERSION_OFFSET_BYTES, zstn};
use crate::engine::PackEngine;
use crate::frame::Edition;
use crate::{Error, Result};

/// Packs a file against a base. The packer alternates between requesting bytes
/// of both files and returning bytes of the delta:
///
/// ```text
/// while let Some(needs) = packing.needs() {
///     let (target, base) = (file.read(needs.target), base.read(needs.base));
///     output.write(packing.supply(engine, target.into(), base.into())?)
/// }
/// ```
#[derive(Debug)]
pub struct IncrementalDeltaPacker {
    target: FileHead,
    base: FileHead,
    options: DeltaOptions,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Start,
    Headers,
    Records(Box<Records>),
    Done(Box<Done>),
}

#[derive(Debug)]
struct Done {
    target: DeltaPacker,
    infos: Vec<RecordInfo>,
    prefix: Vec<u8>,
}

/// The result of packing one tensor against a base.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedRecord<'a> {
    /// The name of the tensor.
    pub name: &'a str,
    /// The length of the tensor in bytes.
    pub len_bytes: u64,
    /// The length of the tensor's record in bytes, or 0 for a copy of the
    /// base's tensor.
    pub stored_len_bytes: u64,
    /// How the tensor is stored.
    pub kind: RecordKind,
}

impl IncrementalDeltaPacker {
    /// Starts to pack a file of `target_len_bytes` against a base of
    /// `base_len_bytes`.
    #[must_use]
    pub fn new(target_len_bytes: u64, base_len_bytes: u64, options: DeltaOptions) -> Self {
        Self {
            target: FileHead::new(target_len_bytes),
            base: FileHead::new(base_len_bytes),
            options,
            stage: Stage::Start,
        }
    }

    /// Returns the ranges that are required next, or `None` when the delta is
    /// complete. A range is empty if its bytes are already in memory.
    #[must_use]
    pub fn needs(&self) -> Option<Needs> {
        let wanted = self.wanted()?;
        Some(Needs {
            target: self.target.missing(&wanted.target),
            base: self.base.missing(&wanted.base),
        })
    }

    /// Returns the name of the tensor to which the required bytes belong, or
    /// `None` while the base is only read for its digest or the headers are
    /// being read.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        match &self.stage {
            Stage::Records(records) => Some(&records.current()?.name),
            _ => None,
        }
    }

    /// Returns the total length of all ranges that will be requested of both
    /// files; `None` until the headers have been read and after the end.
    #[must_use]
    pub fn read_len_bytes(&self) -> Option<u64> {
        match &self.stage {
            Stage::Records(records) => {
                let files = self.target.len_bytes() + self.base.len_bytes();
                Some(files + records.repeated_bytes(self.base.known().len() as u64))
            }
            _ => None,
        }
    }

    /// Takes the bytes of the ranges that [`IncrementalDeltaPacker::needs`] has
    /// returned, and returns the next bytes of the delta, which may be none.
    /// Owned bytes are not copied. After an error the packer cannot continue.
    pub fn supply<E: PackEngine>(
        &mut self,
        engine: &E,
        target: Cow<[u8]>,
        base: Cow<[u8]>,
    ) -> Result<Vec<u8>> {
        let Some(wanted) = self.wanted() else {
            return Err(Error::invalid_input("the file is already packed"));
        };
        let target = self.target.complete(&wanted.target, target)?;
        let read = self.base.complete(&wanted.base, base)?;
        match mem::replace(&mut self.stage, Stage::Start) {
            Stage::Start => {
                if target.starts_with(&zstn::MAGIC) || target.starts_with(&super::MAGIC) {
                    return Err(Error::invalid_input("the file is already packed"));
                }
                safetensors::header_len_bytes(&target, self.target.len_bytes())?;
                refuse_packed(&read)
                    .and_then(|()| safetensors::header_len_bytes(&read, self.base.len_bytes()))
                    .map_err(of_base)?;
                self.target.extend(0, &target);
                self.base.extend(0, &read);
                self.stage = Stage::Headers;
                Ok(Vec::new())
            }
            Stage::Headers => {
                self.target.extend(PREFIX_BYTES, &target);
                self.base.extend(PREFIX_BYTES, &read);
                let target = DeltaPacker::new(target.into_owned(), self.target.len_bytes())?;
                let base = BaseHeader::parse(self.base.known(), self.base.len_bytes());
                let records = Records::new(target, base.map_err(of_base)?, self.options);
                self.go_on(Box::new(records), Vec::new())
            }
            Stage::Records(mut records) => {
                let out = records.next(engine, &target, &read, &wanted.base)?;
                self.go_on(records, out)
            }
            done @ Stage::Done(_) => {
                self.stage = done;
                Ok(Vec::new())
            }
        }
    }

    /// Returns the first bytes of the delta, including its version. Empty until
    /// the delta is complete.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        match &self.stage {
            Stage::Done(done) => &done.prefix,
            _ => &[],
        }
    }

    /// Returns all tensors in data order. Empty until the delta is complete.
    #[must_use]
    pub fn packed(&self) -> Vec<PackedRecord<'_>> {
        let Stage::Done(done) = &self.stage else {
            return Vec::new();
        };
        let all = done.target.tensors().iter().zip(&done.infos);
        all.map(|(tensor, info)| PackedRecord {
            name: &tensor.name,
            len_bytes: tensor.span.end - tensor.span.start,
            stored_len_bytes: match info.kind {
                RecordKind::Copy => 0,
                kind => kind.head_bytes(tensor.name.len() as u64) + info.payload_len_bytes,
            },
            kind: info.kind,
        })
        .collect()
    }

    fn wanted(&self) -> Option<Needs> {
        match &self.stage {
            Stage::Start => Some(Needs {
                target: self.target.first(),
                base: self.base.first(),
            }),
            Stage::Headers => Some(Needs {
                target: header(&self.target),
                base: header(&self.base),
            }),
            Stage::Records(records) => Some(records.wanted()),
            Stage::Done(_) => None,
        }
    }

    /// Advances to the next record or, after the last one, to the end.
    fn go_on(&mut self, mut records: Box<Records>, mut out: Vec<u8>) -> Result<Vec<u8>> {
        if records.is_digested() && records.prefix.is_none() {
            let digest = mem::take(&mut records.base_digest).finish();
            let prefix = records.target.prefix(Edition::Plain, digest)?;
            if !self.options.is_prefix_last() {
                // No record has been returned before, because records wait for
                // the digest without `is_prefix_last`.
                out.extend_from_slice(&prefix);
            }
            records.prefix = Some(prefix);
        }
        if records.infos.len() < records.target.tensors().len() {
            self.stage = Stage::Records(records);
            return Ok(out);
        }
        let Some(mut prefix) = records.prefix.take() else {
            self.stage = Stage::Records(records);
            return Ok(out);
        };
        prefix[index(VERSION_OFFSET_BYTES)] = version(records.edition);
        let digest = records.target_hash.finish();
        let Records {
            target,
            base,
            infos,
            ..
        } = *records;
        out.extend_from_slice(&target.trailer(&base, infos.clone(), digest));
        self.stage = Stage::Done(Box::new(Done {
            target,
            infos,
            prefix,
        }));
        Ok(out)
    }
}

/// Returns the range of the header; its length must have been read and checked.
fn header(file: &FileHead) -> Range<u64> {
    let len = safetensors::header_len_bytes(file.known(), file.len_bytes());
    PREFIX_BYTES..PREFIX_BYTES + len.unwrap_or_default()
}

fn of_base(error: Error) -> Error {
    error.file("the base")
}

/// The longest range of the base, in bytes, that is requested only for the
/// digest.
const DIGESTED_BYTES: u64 = 16 << 20;

/// The ranges of both files that are required next. Either may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The range to read from the file being packed.
    pub target: Range<u64>,
    /// The range to read from the base.
    pub base: Range<u64>,
}

/// The state of packing between two records.
#[derive(Debug)]
struct Records {
    target: DeltaPacker,
    base: BaseHeader,
    pairs: Pairs,
    options: DeltaOptions,
    /// The trailer entries of the records encoded so far.
    infos: Vec<RecordInfo>,
    /// The edition that these records require of the file.
    edition: Edition,
    target_hash: TargetHash,
    base_digest: DataDigest,
    /// The offset in the base's file up to which `base_digest` covers it.
    digested: u64,
    prefix: Option<Vec<u8>>,
}

impl Records {
    fn new(target: DeltaPacker, base: BaseHeader, options: DeltaOptions) -> Self {
        Self {
            digested: base.data().start,
            pairs: target.pairs(&base, options.encode),
            target_hash: target.target_hash(),
            target,
            base,
            options,
            infos: Vec::new(),
            edition: Edition::Plain,
            base_digest: DataDigest::default(),
            prefix: None,
        }
    }

    fn is_digested(&self) -> bool {
        self.digested == self.base.data().end
    }

    /// Returns the offset up to which the base must be digested before the next
    /// record: the end of the base, or the start of the tensor that the record
    /// is compared with.
    fn digest_goal(&self) -> u64 {
        let end = self.base.data().end;
        match self.target.tensors().get(self.infos.len()) {
            Some(tensor) if self.options.is_prefix_last() => {
                let pair = self.pairs.get(tensor);
                pair.map_or(self.digested, |pair| pair.tensor.start)
            }
            _ => end,
        }
    }

    /// Returns the tensor of the next record, or `None` while the base must be
    /// digested first.
    fn current(&self) -> Option<&HeaderTensor> {
        let is_record = self.digest_goal() <= self.digested;
        let tensor = is_record.then(|| self.target.tensors().get(self.infos.len()));
        tensor.flatten()
    }

    /// Returns the ranges that are required next.
    fn wanted(&self) -> Needs {
        let Some(tensor) = self.current() else {
            let end = self.digest_goal().min(self.digested + DIGESTED_BYTES);
            return Needs {
                target: 0..0,
                base: self.digested..end,
            };
        };
        Needs {
            target: self.target.range(tensor),
            base: self
                .pairs
                .get(tensor)
                .map_or(0..0, |pair| pair.tensor.clone()),
        }
    }

    /// Takes the bytes of the ranges that [`Records::wanted`] has returned;
    /// `range` is the requested range of the base. Returns the next record, or
    /// no bytes while the base is only digested.
    fn next<E: PackEngine>(
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
        self.target_hash.update(target);
        let reference = self.pairs.get(&tensor).map(|pair| (pair, base));
        let coded = code(engine, &tensor, target, reference, self.options.encode)?;
        self.edition = self.edition.max(coded.edition);
        self.infos.push(coded.info);
        Ok(coded.record)
    }

    /// Returns the number of bytes of the base that are read a second time. The
    /// first `known_bytes` of the file are never read again.
    fn repeated_bytes(&self, known_bytes: u64) -> u64 {
        let data = self.base.data();
        let mut digested = match self.options.is_prefix_last() {
            true => data.start,
            false => data.end,
        };
        let tensors = self.target.tensors().iter();
        let pairs = tensors.filter_map(|tensor| self.pairs.get(tensor));
        pairs
            .map(|pair| {
                let Range { start, end } = pair.tensor;
                let again = end.min(digested).saturating_sub(start.max(known_bytes));
                digested = digested.max(end);
                again
            })
            .sum()
    }
}
