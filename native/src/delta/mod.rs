//! Packs a checkpoint as a delta from a base and restores it, in bounded memory.
//!
//! Packing proceeds batch by batch, as for whole checkpoints; a tensor that is too
//! large for a batch is coded in temporary files (`large`). Unpacking writes every
//! tensor to its position in the output as soon as it is decoded.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::model_delta::{
    BaseHeader, CodedRecord, DataDigest, DeltaPacker, DeltaTable, RecordInfo, RecordKind,
    RestoredCheck, code, version,
};
use zstn_core::container::safetensors::{PREFIX_BYTES, header_len_bytes};
use zstn_core::digest;
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;

use crate::container::{MAX_CHECKED_BYTES, decode_in_order, decode_in_waves};
use crate::finished::{self, FinishedTensor, Listed};
use crate::pack::{batch, max_packed_bytes};
use crate::report::{PackedFile, Storage, UnpackedFile};
use crate::source::{Local, Source};
use crate::{Engine, Error, Output, PackOptions, Progress, Result, unpack};

mod base_file;
mod large;

pub use base_file::MAX_BASES;
pub(crate) use base_file::{BaseFile, check_chain};

/// A batch may take one share of the allowed memory; the shares are for its tensors,
/// the tensors of the base, the deltas, two coded forms, and the batch that is being
/// written.
const SHARES: u64 = 6;

/// Packs the safetensors file `target` against `base`.
pub(crate) fn pack_delta(
    engine: &Engine,
    target: &Local,
    base: &Local,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    options.check()?;
    output.check_inputs(&[target, base])?;
    output.expect(max_packed_bytes(target));
    let written = write_delta(engine, target, base, &mut output, options);
    // If an input has changed, the change is reported: it may have caused any other
    // error.
    let unchanged = target.check_unchanged().and(base.check_unchanged());
    let mut report = match unchanged.and(written) {
        Ok(report) => report,
        Err(error) => return Err(output.give_up(error)),
    };
    report.output = output.path();
    report.upload = output.complete(options.progress)?;
    Ok(report)
}

/// Returns the bytes of a safetensors file before its data. If the file is not
/// safetensors, returns only the first bytes.
fn safetensors_head(input: &Local) -> Result<Cow<'_, [u8]>> {
    let start = input.head(PREFIX_BYTES)?;
    match header_len_bytes(&start, input.len_bytes()) {
        Ok(len) => input.head(PREFIX_BYTES + len),
        Err(_) => Ok(start),
    }
}

/// Reads the header of the base.
fn base_header(base: &Local) -> Result<BaseHeader> {
    let head = safetensors_head(base)?;
    BaseHeader::parse(&head, base.len_bytes()).map_err(Error::place(base.name()))
}

/// Returns the digest of the base's data.
fn data_digest(base: &Local, header: &BaseHeader) -> Result<[u8; 8]> {
    let mut digest = DataDigest::default();
    base.feed(header.data(), &mut |piece| digest.update(piece))?;
    Ok(digest.finish())
}

fn write_delta(
    engine: &Engine,
    target: &Local,
    base: &Local,
    output: &mut Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    let refuse = Error::place(target.name());
    let base_header = base_header(base)?;
    let head = safetensors_head(target)?;
    let header_len = header_len_bytes(&head, target.len_bytes()).map_err(&refuse)?;
    let json = zstn_core::bytes::part(&head, PREFIX_BYTES..PREFIX_BYTES + header_len).to_vec();
    drop(head);
    let packing = DeltaPacker::new(json, target.len_bytes()).map_err(&refuse)?;
    let tensors = packing.tensors();
    let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
    options.progress.begin(lens.iter().sum());
    let digest = data_digest(base, &base_header)?;
    let prefix = packing.prefix(Edition::Plain, digest).map_err(&refuse)?;
    if options.extended {
        output.hold();
    }
    output.write_final(&prefix)?;

    let mut packed_bytes = prefix.len() as u64;
    let mut places: Vec<RecordInfo> = Vec::new();
    let mut pending: Vec<CodedRecord> = Vec::new();
    // The version is part of the prefix, but depends on the records.
    let mut edition = Edition::Plain;
    let mut settle_version = |latest: Edition, len_bytes: u64, output: &mut Output| {
        if latest == edition {
            return Ok(());
        }
        edition = latest;
        output.revise(version(latest), VERSION_OFFSET_BYTES, len_bytes)
    };
    let mut latest = Edition::Plain;
    let tell = |number: usize, info: RecordInfo, payload: &[u8]| {
        if options.progress.wants_tensors() {
            let storage = finished::record(info.kind, payload);
            let tensor = FinishedTensor::new(&tensors[number], storage, info.payload_len_bytes);
            options.progress.tensor(&tensor);
        }
    };
    let code = |number: usize| -> Result<CodedRecord> {
        let tensor = &tensors[number];
        let bytes = target.read(packing.range(tensor))?;
        let reference = base_header.reference(tensor);
        let reference = reference.map(|range| base.read(range)).transpose()?;
        let coded = code(
            engine,
            tensor,
            &bytes,
            reference.as_deref(),
            options.encode(),
        );
        let coded = coded.map_err(&refuse)?;
        options.progress.advance(lens[number]);
        let payload_len = index(coded.info.payload_len_bytes);
        let payload = &coded.record[coded.record.len() - payload_len..];
        tell(number, coded.info, payload);
        Ok(coded)
    };
    let pair = large::Pair {
        engine,
        target,
        base,
        packing: &packing,
        base_header: &base_header,
        options,
    };
    let no_aliases = vec![None; lens.len()];
    let most_bytes = options.memory_bytes / SHARES;
    let batch_bytes = batch::enough_bytes(&lens, engine.threads(), most_bytes);
    for batch in batch::cut(&lens, &no_aliases, batch_bytes) {
        // The records of the previous batch are written while this one is coded.
        let (coded, written) = engine.join(
            || match batch.large {
                true => Vec::new(),
                false => engine.map(batch.tensors.clone().collect(), code),
            },
            || {
                pending
                    .iter()
                    .try_for_each(|coded| output.write_final(&coded.record))
            },
        );
        written?;
        settle_version(latest, packed_bytes, output)?;
        pending = coded.into_iter().collect::<Result<Vec<CodedRecord>>>()?;
        places.extend(pending.iter().map(|coded| coded.info));
        packed_bytes += pending.iter().map(|c| c.record.len() as u64).sum::<u64>();
        if batch.large {
            let written = pair.write(batch.tensors.start, output)?;
            // The payload is not in memory, so its frame cannot be described.
            tell(batch.tensors.start, written.info, &[]);
            packed_bytes += written.len_bytes;
            latest = latest.max(written.edition);
            places.push(written.info);
        }
        let editions = pending.iter().map(|coded| coded.edition);
        latest = editions.fold(latest, Edition::max);
    }
    for coded in &pending {
        output.write_final(&coded.record)?;
    }
    settle_version(latest, packed_bytes, output)?;
    let count = |kind| places.iter().filter(|place| place.kind == kind).count();
    let (copied, differing) = (
        count(RecordKind::Copy),
        count(RecordKind::Delta) + count(RecordKind::Difference),
    );
    let whole = count(RecordKind::Full);
    let target_digest = digest::of_fed(|sink| target.feed(0..target.len_bytes(), sink))?;
    let trailer = packing.trailer(&base_header, places, target_digest);
    output.write_final(&trailer)?;
    Ok(PackedFile {
        input: target.name().into(),
        output: None,
        upload: None,
        original_bytes: target.len_bytes(),
        packed_bytes: packed_bytes + trailer.len() as u64,
        tensors: tensors.len(),
        storage: Storage::Delta {
            copied,
            differing,
            whole,
        },
    })
}

/// Restores the file that `input` was packed from against `base`. The output gets its
/// name only after it has been compared with the trailer.
pub(crate) fn unpack_delta(
    engine: &Engine,
    input: &Local,
    base: &Local,
    output: Output,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<UnpackedFile> {
    output.check_inputs(&[input, base])?;
    let restored = Checked::parse(engine, input, base, memory_bytes).and_then(|delta| {
        delta.restore(engine, &output, memory_bytes, progress)?;
        Ok(delta.table.original_len_bytes())
    });
    // If an input has changed, the change is reported: it may have caused any other
    // error.
    let unchanged = input.check_unchanged().and(base.check_unchanged());
    unpack::finish(input, output, unchanged.and(restored), progress)
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
    /// Reads everything except the tensors, and checks every record. The payloads that
    /// are read at the same time take up to about `memory_bytes`.
    pub(crate) fn parse(
        engine: &Engine,
        input: &'a Local,
        base: &'a Local,
        memory_bytes: u64,
    ) -> Result<Self> {
        let base_header = base_header(base)?;
        let table = DeltaTable::read(input.len_bytes(), &mut |range| input.read(range));
        let table = table.map_err(|error| error.placed(input.name()))?;
        let pair = format!("{} with the base {}", input.name(), base.name());
        table
            .check_base(&base_header, data_digest(base, &base_header)?)
            .map_err(Error::place(pair))?;
        let checked = Self {
            table,
            base_header,
            input,
            base,
        };
        let check = |number: usize| {
            let payload = checked.payload(number)?;
            let result = checked.table.check(number, &payload, &checked.base_header);
            result.map_err(Error::place(input.name()))
        };
        let records = checked.table.records();
        let numbers: Vec<usize> = (0..records.len()).collect();
        let payload_bytes = |&number: &usize| {
            let payload = &records[number].payload;
            payload.end - payload.start
        };
        let memory_bytes = memory_bytes.min(MAX_CHECKED_BYTES);
        decode_in_waves(engine, &numbers, payload_bytes, memory_bytes, check)?;
        Ok(checked)
    }

    /// Reads the payload of a record.
    fn payload(&self, number: usize) -> Result<Cow<'a, [u8]>> {
        self.input
            .read(self.table.records()[number].payload.clone())
    }

    /// Decodes every tensor and passes it to `sink` with its span in the data buffer,
    /// from many threads. Compares the whole file with the digest in the trailer, if
    /// there is one and no tensors share bytes. The tensors that are decoded at the
    /// same time take up to about `memory_bytes`. If tensors share bytes, only
    /// [`Checked::restore`] can check that they are consistent.
    pub(crate) fn decode(
        &self,
        engine: &Engine,
        memory_bytes: u64,
        progress: &dyn Progress,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let data_len_bytes = self.table.data_len_bytes();
        progress.begin(data_len_bytes);
        let records = self.table.records();
        let wanted = progress.wants_tensors();
        let listed = wanted.then(|| Listed::of(self.table.header(), data_len_bytes));
        let mut numbers: Vec<usize> = (0..records.len()).collect();
        let decode = |number: usize| {
            let record = &records[number];
            let payload = self.payload(number)?;
            let tensor = self.tensor(engine, number, &payload)?;
            sink(record.span.clone(), &tensor)?;
            if let Some(listed) = &listed {
                let storage = finished::record(record.kind, &payload);
                let len = record.len_bytes();
                let tensor = listed.finished(&record.name, len, storage, payload.len() as u64);
                progress.tensor(&tensor);
            }
            progress.advance(record.len_bytes());
            Ok(tensor)
        };
        // The cost includes the tensor of the base.
        let cost = |&number: &usize| match records[number].kind {
            RecordKind::Full => records[number].len_bytes(),
            _ => records[number].len_bytes().saturating_mul(2),
        };
        let is_tiled = self.table.overlapping().is_empty();
        let Some(check) = self.table.restored_check().filter(|_| is_tiled) else {
            let decode = |number| decode(number).map(drop);
            return decode_in_waves(engine, &numbers, cost, memory_bytes, decode);
        };
        numbers.sort_by_key(|&number| (records[number].span.start, records[number].span.end));
        let header = self.table.header();
        let mut check = Some(
            check
                .with(&(header.len() as u64).to_le_bytes())
                .with(header),
        );
        let hash = |_, tensor: Cow<[u8]>| {
            check = check.take().map(|check| check.with(&tensor));
        };
        decode_in_order(engine, &numbers, cost, memory_bytes, decode, hash)?;
        let finished = check.map_or(Ok(()), RestoredCheck::finish);
        finished.map_err(Error::place(self.input.name()))
    }

    /// Writes the whole target, and makes the checks that need all of its bytes.
    pub(crate) fn restore(
        &self,
        engine: &Engine,
        output: &Output,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<()> {
        let delta = &self.table;
        let data_start = unpack::begin(output, delta.header(), delta.original_len_bytes())?;
        self.decode(engine, memory_bytes, progress, |span, tensor| {
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
            let tensor = self.tensor(engine, number, &self.payload(number)?)?;
            delta
                .check_shared(record, &written.read(span)?, &tensor)
                .map_err(&refuse)?;
        }
        let mut check = delta.restored_check();
        written.feed(0..written.len_bytes(), &mut |piece| {
            check = check.take().map(|check| check.with(piece));
        })?;
        check.map_or(Ok(()), RestoredCheck::finish).map_err(&refuse)
    }

    /// Decodes the tensor of record `number` from its payload.
    fn tensor(&self, engine: &Engine, number: usize, payload: &[u8]) -> Result<Cow<'a, [u8]>> {
        let refuse = Error::place(self.input.name());
        let reference = self.table.reference(number, &self.base_header);
        let reference = reference.map_err(&refuse)?;
        let reference = reference.map(|range| self.base.read(range)).transpose()?;
        let decoded = self
            .table
            .decode(engine, number, payload, reference.as_deref());
        let decoded = match decoded.map_err(&refuse)? {
            Cow::Owned(tensor) => Some(Cow::Owned(tensor)),
            Cow::Borrowed(_) => None,
        };
        // If nothing was decoded, the tensor equals the tensor of the base.
        Ok(decoded.or(reference).unwrap_or_default())
    }
}
