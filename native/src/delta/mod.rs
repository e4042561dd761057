//! Deltas between checkpoints: packs a checkpoint as a delta from a base (`records`), and
//! restores it, in bounded memory. Unpacking writes every tensor to its position in the
//! output as soon as it is decoded.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::container::model_delta::{
    BaseHeader, DataDigest, DeltaTable, RecordKind, RestoredCheck,
};
use zstn_core::container::safetensors::{PREFIX_BYTES, header_len_bytes};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::buffers::Buffer;
use crate::container::{MAX_CHECKED_BYTES, SHARES, decoded_in_order};
use crate::finished_tensor::{self, Listed};
use crate::ordered::{Budget, for_each, in_order};
use crate::pack::is_foreign;
use crate::source::{Local, Source, source_header};
use crate::{Error, Job, Output, Progress as _, Result, unpack};

mod base;
mod base_file;
mod counterparts;
mod large_tensor;
mod merge;
mod records;

pub(crate) use base::{is_base_computed, sources_of_base};
pub use base_file::MAX_BASES;
pub(crate) use base_file::{BaseFile, Bases, check_chain};
pub(crate) use records::{write, write_original};

/// Returns the bytes of a safetensors file before its data. If the file is not
/// safetensors, returns only the first bytes.
fn safetensors_head(input: &Local) -> Result<Cow<'_, [u8]>> {
    let start = input.head(PREFIX_BYTES)?;
    match header_len_bytes(&start, input.len_bytes()) {
        Ok(len) => input.head(PREFIX_BYTES + len),
        Err(_) => Ok(start),
    }
}

/// Reads the header of the base of a safetensors file.
fn base_header(base: &Local) -> Result<BaseHeader> {
    let first = base.head(HEAD_LEN_BYTES)?;
    if is_foreign(base.name(), &first, Some(base.len_bytes())) {
        return Err(Error::Usage(format!(
            "{} cannot be the base of a safetensors file: that is a safetensors file, or a .zstn \
             or .z4dm file that restores one; `convert` makes a safetensors file of it",
            base.name()
        )));
    }
    source_header(base)
}

/// Returns the digest of the base's data, computed once for all deltas that share the base.
fn data_digest(job: &Job, base: &Local, header: &BaseHeader) -> Result<[u8; 8]> {
    base.digest_once(header.data(), || {
        let mut digest = DataDigest::default();
        job.feed(base, header.data(), &mut |piece| {
            digest.update(piece);
            Ok(())
        })?;
        Ok(digest.finish())
    })
}

/// A delta and its matching base; every record has been checked as far as possible
/// without decoding.
pub(crate) struct Checked<'a> {
    pub(crate) table: DeltaTable,
    base_header: BaseHeader,
    input: &'a Local,
    base: &'a Local,
}

impl<'a> Checked<'a> {
    /// Reads everything except the tensors, and checks every record.
    pub(crate) fn parse(job: &Job, input: &'a Local, base: &'a Local) -> Result<Self> {
        let table = DeltaTable::read(input.len_bytes(), &mut |range| input.read(range));
        let table = table.map_err(|error| error.placed(input.name()))?;
        let pair = format!("{} with the base {}", input.name(), base.name());
        let referenced = table.referenced_base(base.len_bytes());
        let base_header = match referenced.map_err(Error::place(&pair))? {
            Some(header) => header,
            None => base_header(base)?,
        };
        table
            .check_base(&base_header, data_digest(job, base, &base_header)?)
            .map_err(Error::place(pair))?;
        let checked = Self {
            table,
            base_header,
            input,
            base,
        };
        let check = |&number: &usize| {
            let payload = checked.payload(job, number)?;
            let result = checked.table.check(number, &payload, &checked.base_header);
            result.map_err(Error::place(input.name()))
        };
        let records = checked.table.records();
        let payloads = records.iter().map(|record| &record.payload);
        let payloads = payloads.map(|payload| payload.end - payload.start);
        let budget = Budget::of_bytes(job.memory().min(MAX_CHECKED_BYTES) / SHARES);
        for_each(job, (0..).zip(payloads), budget, check)?;
        Ok(checked)
    }

    /// Reads the payload of a record.
    fn payload(&self, job: &Job, number: usize) -> Result<Buffer<'a>> {
        let range = self.table.records()[number].payload.clone();
        self.input.read_with(&job.buffers, range)
    }

    /// Decodes every tensor and passes it to `sink` with its span in the data buffer,
    /// from many threads. Compares the whole file with the digest in the trailer, if
    /// there is one, no tensors share bytes, and it is not `fast`. If tensors share bytes,
    /// only [`Checked::restore`] can check that they are consistent.
    pub(crate) fn decode(
        &self,
        job: &Job,
        fast: bool,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        job.begin(self.table.data_len_bytes());
        let records = self.table.records();
        let listed = self.listed(job);
        let decode = |&number: &usize| {
            let tensor = self.decode_record(job, number, listed.as_ref())?;
            sink(records[number].span.clone(), &tensor)?;
            Ok(tensor)
        };
        let Some(check) = self.file_check().filter(|_| !fast) else {
            let items = (0..records.len()).map(|number| (number, self.cost_bytes(number)));
            let budget = Budget::of_bytes(job.memory() / SHARES);
            return for_each(job, items, budget, |number| decode(number).map(drop));
        };
        let mut check = Some(check.with(&self.table.original_head()));
        let hash = |_, tensor: Buffer| {
            check = check.take().map(|check| check.with(&tensor));
            Ok(())
        };
        self.in_order(job, decode, hash)?;
        let finished = check.map_or(Ok(()), RestoredCheck::finish);
        finished.map_err(Error::place(self.input.name()))
    }

    /// Decodes all records of a delta whose tensors do not share bytes, and passes the
    /// data of the target to `next` in order, on this thread. Every tensor is compared
    /// with its digest before it is passed on; the file as a whole is not.
    pub(crate) fn decode_sorted(
        &self,
        job: &Job,
        mut next: impl FnMut(Buffer<'a>) -> Result<()>,
    ) -> Result<()> {
        job.begin(self.table.data_len_bytes());
        let listed = self.listed(job);
        let decode = |&number: &usize| self.decode_record(job, number, listed.as_ref());
        self.in_order(job, decode, |_, tensor| next(tensor))
    }

    /// Runs `decode` for all records, and passes the results to `next` in the order of
    /// the target's data.
    fn in_order(
        &self,
        job: &Job,
        decode: impl Fn(&usize) -> Result<Buffer<'a>> + Sync,
        next: impl FnMut(usize, Buffer<'a>) -> Result<()>,
    ) -> Result<()> {
        let records = self.table.records();
        let mut numbers: Vec<usize> = (0..records.len()).collect();
        numbers.sort_by_key(|&number| (records[number].span.start, records[number].span.end));
        let costs = numbers.iter().map(|&number| self.cost_bytes(number));
        let budget = decoded_in_order(job, costs);
        let items = numbers.into_iter();
        let items = items.map(|number| (number, self.cost_bytes(number)));
        in_order(job, items, budget, Ok, decode, next)
    }

    /// Returns the comparison of the target with its digest, if the delta has one and no
    /// tensors share bytes.
    pub(crate) fn file_check(&self) -> Option<RestoredCheck> {
        self.table.restored_check().filter(|_| self.is_tiled())
    }

    /// Returns whether no tensors of the target share bytes.
    pub(crate) fn is_tiled(&self) -> bool {
        self.table.overlapping().is_empty()
    }

    /// Returns the memory for decoding a record, in bytes, with the tensor of the base.
    fn cost_bytes(&self, number: usize) -> u64 {
        let record = &self.table.records()[number];
        match record.kind {
            RecordKind::Full => record.len_bytes(),
            _ => record.len_bytes().saturating_mul(2),
        }
    }

    /// Returns the tensors that the target's header lists, if the caller's progress wants
    /// to receive tensors.
    fn listed(&self, job: &Job) -> Option<Listed> {
        let wanted = job.wants_tensors();
        wanted.then(|| Listed::of(self.table.header(), self.table.data_len_bytes()))
    }

    /// Reads and decodes the tensor of record `number`, and reports it.
    fn decode_record(
        &self,
        job: &Job,
        number: usize,
        listed: Option<&Listed>,
    ) -> Result<Buffer<'a>> {
        let record = &self.table.records()[number];
        let payload = self.payload(job, number)?;
        let tensor = self.tensor(job, number, &payload)?;
        if let Some(listed) = listed {
            let storage = finished_tensor::record(record.kind, &payload);
            let len = record.len_bytes();
            let tensor = listed.finished(&record.name, len, storage, payload.len() as u64);
            job.tensor(&tensor);
        }
        job.advance(record.len_bytes());
        Ok(tensor)
    }

    /// Writes the whole target, and makes the checks that need all of its bytes.
    pub(crate) fn restore(&self, job: &Job, output: &Output) -> Result<()> {
        let delta = &self.table;
        let head = delta.original_head();
        let data_start = unpack::begin(output, &head, delta.original_len_bytes())?;
        self.decode(job, false, |span, tensor| {
            output.write_at(tensor, data_start + span.start)
        })?;
        let shared = delta.overlapping();
        if shared.is_empty() {
            return Ok(());
        }
        let refuse = Error::place(self.input.name());
        let written = output.written()?;
        for number in shared {
            let record = &delta.records()[number];
            let span = data_start + record.span.start..data_start + record.span.end;
            let tensor = self.tensor(job, number, &self.payload(job, number)?)?;
            delta
                .check_shared(record, &written.read(span)?, &tensor)
                .map_err(&refuse)?;
        }
        let mut check = delta.restored_check();
        job.feed(&written, 0..written.len_bytes(), &mut |piece| {
            check = check.take().map(|check| check.with(piece));
            Ok(())
        })?;
        check.map_or(Ok(()), RestoredCheck::finish).map_err(&refuse)
    }

    /// Decodes the tensor of record `number` from its payload.
    fn tensor(&self, job: &Job, number: usize, payload: &[u8]) -> Result<Buffer<'a>> {
        let refuse = Error::place(self.input.name());
        let reference = self.table.reference(number, &self.base_header);
        let reference = reference.map_err(&refuse)?;
        let read = |range| self.base.read_with(&job.buffers, range);
        let reference = reference.map(read).transpose()?;
        let table = &self.table;
        let decoded = table.decode(&job.engine, number, payload, reference.as_deref());
        let decoded = match decoded.map_err(&refuse)? {
            Cow::Owned(tensor) => Some(tensor.into()),
            Cow::Borrowed(_) => None,
        };
        // If nothing was decoded, the tensor equals the tensor of the base.
        Ok(decoded.or(reference).unwrap_or_else(|| Vec::new().into()))
    }
}
