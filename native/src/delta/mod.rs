//! A checkpoint as its difference from a base, and back, in bounded memory.
//!
//! Packing goes batch by batch like that of whole checkpoints; a tensor too
//! large for a batch goes by way of temporary files (`large`). Unpacking puts
//! every tensor into its place in the output as it comes.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::model_delta::{
    Base, Coded, DeltaPacker, Kind, ModelDelta, RecordInfo, RestoredCheck, version,
};
use zstn_core::digest;
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;

use crate::container::{decode_in_order, decode_in_waves};
use crate::finished::{self, FinishedTensor, Listed};
use crate::pack::{batch, max_packed_bytes};
use crate::report::{PackedFile, Storage, UnpackedFile};
use crate::source::{Map, Source};
use crate::{Engine, Error, Output, PackOptions, Progress, Result, unpack};

mod base_file;
mod large;

pub(crate) use base_file::{BaseFile, MAX_BASES, check_chain};

/// Parts of the memory allowed that a batch may take: tensors, those of the
/// base, differences, two coded forms, and the batch being written.
const SHARES: u64 = 6;

/// Packs the safetensors file `target` against `base`.
pub(crate) fn pack_delta(
    engine: &Engine,
    target: &Map,
    base: &Map,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    options.check()?;
    output.check_inputs(&[target, base])?;
    output.expect(max_packed_bytes(target));
    let written = write_delta(engine, target, base, &mut output, options);
    // Whatever else went wrong may come of the change.
    let unchanged = target.check_unchanged().and(base.check_unchanged());
    let mut report = match unchanged.and(written) {
        Ok(report) => report,
        Err(error) => return Err(output.give_up(error)),
    };
    report.output = output.path();
    report.upload = output.complete(options.progress)?;
    Ok(report)
}

fn write_delta(
    engine: &Engine,
    target: &Map,
    base: &Map,
    output: &mut Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    let refuse = Error::place(target.name());
    let parsed = Base::parse(base).map_err(Error::place(base.name()))?;
    let packing = DeltaPacker::new(target, &parsed).map_err(&refuse)?;
    let tensors = packing.tensors();
    let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
    options.progress.begin(lens.iter().sum());
    let digest = parsed.digest(&|read| release(base, &read));
    let prefix = packing.prefix(digest).map_err(&refuse)?;
    if options.extended {
        output.hold();
    }
    output.write_final(&prefix)?;

    let mut packed_bytes = prefix.len() as u64;
    let mut places: Vec<RecordInfo> = Vec::new();
    let mut pending: Vec<Coded> = Vec::new();
    // The version is in the prefix, and depends on the records.
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
    let code = |number: usize| {
        let coded = packing.code(engine, number, options.encode());
        if let Ok(range) = packing.range(number) {
            release(target, &range);
        }
        if let Some(place) = parsed.range(&tensors[number].name) {
            release(base, &place);
        }
        options.progress.advance(lens[number]);
        if let Ok(coded) = &coded {
            let payload_len = index(coded.info.payload_len_bytes);
            let payload = &coded.record[coded.record.len() - payload_len..];
            tell(number, coded.info, payload);
        }
        coded
    };
    let pair = large::Pair {
        engine,
        target,
        base,
        packing: &packing,
        options,
    };
    let no_aliases = vec![None; lens.len()];
    let most_bytes = options.memory_bytes / SHARES;
    let batch_bytes = batch::enough_bytes(&lens, engine.threads(), most_bytes);
    for batch in batch::cut(&lens, &no_aliases, batch_bytes) {
        // Records of the batch before go out while this one is coded.
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
        let coded: zstn_core::Result<Vec<Coded>> = coded.into_iter().collect();
        pending = coded.map_err(&refuse)?;
        places.extend(pending.iter().map(|coded| coded.info));
        packed_bytes += pending.iter().map(|c| c.record.len() as u64).sum::<u64>();
        if batch.large {
            let written = pair.write(batch.tensors.start, output)?;
            // Its frame is not at hand any more.
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
        count(Kind::Copy),
        count(Kind::Delta) + count(Kind::Difference),
    );
    let whole = count(Kind::Full);
    let trailer = packing.trailer(places, digest::of_pieces(target.pieces(0..target.len())));
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

/// Restores the file that `input` was packed from against `base`. What was
/// written is compared with the trailer before it gets its name.
pub(crate) fn unpack_delta(
    engine: &Engine,
    input: &Map,
    base: &Map,
    output: Output,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<UnpackedFile> {
    output.check_inputs(&[input, base])?;
    let restored = Checked::parse(engine, input, base).and_then(|delta| {
        delta.restore(engine, &output, memory_bytes, progress)?;
        Ok(delta.delta.original_len_bytes())
    });
    // Whatever else went wrong may come of the change.
    let unchanged = input.check_unchanged().and(base.check_unchanged());
    unpack::finish(input, output, unchanged.and(restored), progress)
}

/// A delta and its base that fit each other, every record checked as far as
/// that is possible without decoding.
pub(crate) struct Checked<'a> {
    pub(crate) delta: ModelDelta<'a>,
    base: Base<'a>,
    maps: [&'a Map; 2],
}

impl<'a> Checked<'a> {
    pub(crate) fn parse(engine: &Engine, input: &'a Map, base_map: &'a Map) -> Result<Self> {
        let refuse = Error::place(input.name());
        let base = Base::parse(base_map).map_err(Error::place(base_map.name()))?;
        let delta = ModelDelta::parse(input).map_err(&refuse)?;
        let pair = format!("{} with the base {}", input.name(), base_map.name());
        delta
            .check_base(&base, &|read| release(base_map, &read))
            .map_err(Error::place(pair))?;
        let checked = Self {
            delta,
            base,
            maps: [input, base_map],
        };
        engine
            .map((0..checked.delta.records().len()).collect(), |number| {
                let result = checked.delta.check(number, &checked.base);
                // Checking has looked into every part of the payload.
                checked.release(number);
                result
            })
            .into_iter()
            .collect::<zstn_core::Result<()>>()
            .map_err(&refuse)?;
        Ok(checked)
    }

    /// Decodes every tensor and hands it to `sink` with its span of the data
    /// buffer, from many threads, and compares the whole with the digest in the
    /// trailer, if there is one. Tensors decoded at the same time take about
    /// `memory_bytes` at most. Where tensors share bytes, only
    /// [`Checked::restore`] shows whether they agree.
    pub(crate) fn decode(
        &self,
        engine: &Engine,
        memory_bytes: u64,
        progress: &dyn Progress,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        progress.begin(self.delta.data_len_bytes());
        let records = self.delta.records();
        let wanted = progress.wants_tensors();
        let listed = wanted.then(|| Listed::of(self.delta.header(), self.delta.data_len_bytes()));
        let mut numbers: Vec<usize> = (0..records.len()).collect();
        let decode = |number: usize| {
            let record = &records[number];
            let tensor = self.tensor(engine, number)?;
            sink(record.span.clone(), &tensor)?;
            if let Some(listed) = &listed {
                let payload = zstn_core::bytes::part(self.maps[0], record.payload.clone());
                let storage = finished::record(record.kind, payload);
                let len = record.len_bytes();
                let tensor = listed.finished(&record.name, len, storage, payload.len() as u64);
                progress.tensor(&tensor);
            }
            self.release(number);
            progress.advance(record.len_bytes());
            Ok(tensor)
        };
        let cost = |&number: &usize| records[number].len_bytes();
        let is_tiled = self.delta.overlapping().is_empty();
        let Some(check) = self.delta.restored_check().filter(|_| is_tiled) else {
            let decode = |number| decode(number).map(drop);
            return decode_in_waves(engine, &numbers, cost, memory_bytes, decode);
        };
        numbers.sort_by_key(|&number| (records[number].span.start, records[number].span.end));
        let header = self.delta.header();
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
        finished.map_err(Error::place(self.maps[0].name()))
    }

    /// Writes the whole target and checks all that shows only then.
    pub(crate) fn restore(
        &self,
        engine: &Engine,
        output: &Output,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<()> {
        let delta = &self.delta;
        let data_start = unpack::begin(output, delta.header(), delta.original_len_bytes())?;
        self.decode(engine, memory_bytes, progress, |span, tensor| {
            output.write_at(tensor, data_start + span.start)
        })?;
        let shared = delta.overlapping();
        if shared.is_empty() {
            return Ok(());
        }
        let refuse = Error::place(self.maps[0].name());
        let written = output.map()?;
        for number in shared {
            let record = &delta.records()[number];
            let span = data_start + record.span.start..data_start + record.span.end;
            let tensor = self.tensor(engine, number)?;
            delta
                .check_shared(record, zstn_core::bytes::part(&written, span), &tensor)
                .map_err(&refuse)?;
        }
        let check = delta.restored_check();
        let check = check.map(|check| {
            let pieces = written.pieces(0..written.len());
            pieces.fold(check, RestoredCheck::with)
        });
        check.map_or(Ok(()), RestoredCheck::finish).map_err(&refuse)
    }

    fn tensor(&self, engine: &Engine, number: usize) -> Result<Cow<'_, [u8]>> {
        let decoded = self.delta.decode(engine, number, &self.base);
        decoded.map_err(Error::place(self.maps[0].name()))
    }

    fn release(&self, number: usize) {
        let record = &self.delta.records()[number];
        release(self.maps[0], &record.payload);
        if let Some(place) = self.base.range(&record.name) {
            release(self.maps[1], &place);
        }
    }
}

fn release(map: &Map, place: &Range<u64>) {
    map.release(index(place.start)..index(place.end));
}
