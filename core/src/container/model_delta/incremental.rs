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

use super::record::RecordKind;
use super::trailer::RecordInfo;
use super::write::{DeltaOptions, DeltaPacker, Needs, Records};
use super::{BaseHeader, refuse_packed, version};
use crate::bytes::index;
use crate::container::safetensors::{self, PREFIX_BYTES};
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
            return Err(Error::invalid_input("the file is packed already"));
        };
        let target = self.target.complete(&wanted.target, target)?;
        let read = self.base.complete(&wanted.base, base)?;
        match mem::replace(&mut self.stage, Stage::Start) {
            Stage::Start => {
                if target.starts_with(&zstn::MAGIC) || target.starts_with(&super::MAGIC) {
                    return Err(Error::invalid_input("the file is packed already"));
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
