//! Packs one file: codes its tensors batch by batch and writes them in order.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use zstn_core::TensorRef;
use zstn_core::checksum::checksum_fed;
use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::safetensors::{HeaderTensor, PREFIX_BYTES};
use zstn_core::container::zstn::integrity::{EncodedStatistics, FrameDigests};
use zstn_core::container::zstn::rows::FrameTable;
use zstn_core::container::zstn::{
    CodedTensor, ContainerBuilder, ContainerOptions, ContainerStart, StoredFrame, single_frame,
};
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::frame::select::Choice;
use zstn_core::statistics::Statistics;

use super::PackOptions;
use super::aliases::Aliases;
use super::batch::{self, Batch};
use super::data::Data;
use super::large::{self, Written};
use crate::finished::{self, FinishedTensor};
use crate::report::{PackedFile, Storage};
use crate::source::Source;
use crate::{Engine, Error, Output, Result};

/// A packer for one file.
pub(crate) struct FilePacker<'a> {
    pub(super) engine: &'a Engine,
    pub(super) data: Data<'a>,
    container: ContainerOptions,
    pub(super) options: &'a PackOptions<'a>,
}

impl<'a> FilePacker<'a> {
    /// Returns a packer for the tensors of `data`.
    pub(crate) fn new(engine: &'a Engine, data: Data<'a>, options: &'a PackOptions<'a>) -> Self {
        let container = ContainerOptions::new(options.effort)
            .extended(options.extended)
            .integrity(options.integrity)
            .statistics(options.statistics)
            .original_sha256(options.original_sha256)
            .allow_truncated(options.allow_truncated);
        Self {
            engine,
            data,
            container,
            options,
        }
    }

    /// Writes the container for the whole file.
    pub(super) fn pack(self, output: &mut Output) -> Result<PackedFile> {
        let (engine, input) = (self.engine, self.data.input);
        let data_len_bytes = input.len_bytes() - self.data.start;
        let header = input.read(PREFIX_BYTES..self.data.start)?;
        self.options.progress.begin(data_len_bytes);
        let start = ContainerBuilder::start(engine, &header, data_len_bytes, &self.container)
            .map_err(Error::place(input.name()))?;
        match start {
            ContainerStart::Indexed {
                builder,
                prefix,
                tensors,
            } => {
                drop(header);
                self.indexed(builder, prefix, tensors, output)
            }
            ContainerStart::SingleFrame => {
                self.data.check_end()?;
                let data = self.data.read(&(0..data_len_bytes))?;
                let parts = single_frame(engine, &header, &data, &self.container)
                    .map_err(Error::place(input.name()))?;
                parts.iter().try_for_each(|part| output.write_final(part))?;
                self.options.progress.advance(data_len_bytes);
                Ok(PackedFile {
                    input: String::new(),
                    output: None,
                    upload: None,
                    original_bytes: input.len_bytes(),
                    packed_bytes: parts.iter().map(|part| part.len() as u64).sum(),
                    tensors: 0,
                    storage: Storage::SingleFrame,
                })
            }
        }
    }

    /// Returns the maximum size of a batch, in bytes of original data. While a batch is
    /// coded, the previous one is written and the next one arrives.
    pub(super) fn max_batch_bytes(&self) -> u64 {
        self.options.memory_bytes / 3
    }

    fn indexed(
        self,
        mut builder: ContainerBuilder,
        prefix: Vec<u8>,
        mut tensors: Vec<HeaderTensor>,
        output: &mut Output,
    ) -> Result<PackedFile> {
        let plain_version = builder.version();
        // The version is part of the prefix, but depends on the frames.
        let mut is_version_open = self.options.extended;
        if is_version_open {
            output.hold();
        }
        let mut settle_version = |builder: &ContainerBuilder, output: &mut Output| {
            let version = builder.version();
            if !is_version_open || version == plain_version {
                return Ok(());
            }
            is_version_open = false;
            // All frames that were added to `builder` so far have been written.
            output.revise(version, VERSION_OFFSET_BYTES, builder.position())
        };
        output.write_final(&prefix)?;
        drop(prefix);
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let mut aliases = Aliases::of(&self.data, &tensors, &lens)?;
        let batch_bytes = batch::enough_bytes(&lens, self.engine.threads(), self.max_batch_bytes());
        let batches = batch::cut(&lens, aliases.targets(), batch_bytes);
        let mut pending: Vec<CodedTensor> = Vec::new();
        let end_of =
            |tensors: &[HeaderTensor], batch: &Batch| tensors[batch.tensors.end - 1].span.end;
        let mut batches = batches.into_iter().peekable();
        while let Some(batch) = batches.next() {
            let span = tensors[batch.tensors.start].span.start..end_of(&tensors, &batch);
            let next_end = batches
                .peek()
                .map_or(span.end, |next| end_of(&tensors, next));
            self.data.fetch_until(span.end)?;
            aliases.look_at(self.engine, &self.data, &tensors, batch.tensors.clone())?;
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| aliases.of_tensor(number).is_none())
                .collect();
            let held = match batch.large {
                true => Vec::new(),
                false => self.read(&tensors, &distinct)?,
            };
            self.data.will_need(&(span.end..next_end));
            // While this batch is coded, the frames of the previous batch are written
            // and the next batch is fetched.
            let (coded, written) = self.engine.join(
                || self.code(&tensors, &distinct, &held),
                || {
                    if builder.needs_original() {
                        let mut held = distinct.iter().zip(&held).peekable();
                        for number in batch.tensors.clone() {
                            match held.next_if(|(held, _)| **held == number) {
                                Some((_, bytes)) => builder.original(bytes),
                                // The bytes of aliases and large tensors are not in
                                // memory.
                                None => self.data.feed(&tensors[number].span, &mut |piece| {
                                    builder.original(piece);
                                })?,
                            }
                        }
                    }
                    write_all(output, &pending)?;
                    self.data.fetch_until(next_end)
                },
            );
            written?;
            settle_version(&builder, output)?;
            drop(held);
            pending = coded;
            let mut frames = pending.iter_mut();
            for number in batch.tensors {
                let span = tensors[number].span.clone();
                if let Some(target) = aliases.of_tensor(number) {
                    if self.options.progress.wants_tensors() {
                        let storage = finished::alias(&builder.records()[target].name);
                        self.tell(&tensors[number], storage, 0);
                    }
                    builder.alias(mem::take(&mut tensors[number].name), span, target)?;
                    continue;
                }
                let frame = if batch.large {
                    let start = builder.position();
                    let mut written = self.large(&tensors[number], start, output)?;
                    let (len_bytes, edition) = (written.len_bytes, written.edition);
                    if self.options.progress.wants_tensors() {
                        let storage = mem::take(&mut written.storage);
                        self.tell(&tensors[number], storage, len_bytes);
                    }
                    let digests = self.large_digests(&tensors[number], start, written, output)?;
                    // Blocks are written out of order and the frame is read back, which
                    // moves the position on some systems.
                    output.seek(start + len_bytes)?;
                    StoredFrame {
                        len_bytes,
                        edition,
                        digests,
                    }
                } else {
                    let coded = frames.next().expect("a frame for every tensor coded");
                    StoredFrame {
                        len_bytes: coded.frame.len() as u64,
                        edition: Edition::of_frame(&coded.frame),
                        digests: coded.digests.take(),
                    }
                };
                let name = mem::take(&mut tensors[number].name);
                builder.frame(name, span, frame);
            }
            if batch.large {
                output.settle()?;
            }
            self.data.free_until(span.end);
        }
        self.data.check_end()?;
        write_all(output, &pending)?;
        settle_version(&builder, output)?;
        let packed_bytes = builder.position();
        let end = builder.finish()?;
        output.write_final(&end.bytes)?;
        Ok(PackedFile {
            input: String::new(),
            output: None,
            upload: None,
            original_bytes: self.data.input.len_bytes(),
            packed_bytes: packed_bytes + end.bytes.len() as u64,
            tensors: tensors.len(),
            storage: Storage::Indexed {
                aliased: aliases.count(),
            },
        })
    }

    /// Writes the frame of a tensor that does not fit into memory, at the offset
    /// `position` of the output.
    pub(crate) fn large(
        &self,
        tensor: &HeaderTensor,
        position: u64,
        output: &mut Output,
    ) -> Result<Written> {
        let choice = self.choice(tensor)?;
        let other = match choice {
            Choice::Whole(frame) => frame,
            Choice::Planes(recipe, other) => {
                let range = self.data.range(&tensor.span);
                let written = large::write(self, range, &recipe, position, output)?;
                let is_less = |other: &Vec<u8>| (other.len() as u64) < written.len_bytes;
                let Some(other) = other.filter(is_less) else {
                    return Ok(written);
                };
                output.cut(position)?;
                output.seek(position)?;
                other
            }
        };
        output.write(&other)?;
        Ok(Written {
            len_bytes: other.len() as u64,
            edition: Edition::of_frame(&other),
            table: FrameTable::of(&other),
            storage: finished::frame(&other),
        })
    }

    /// Chooses how to code a tensor that does not fit into memory. Very long tensors
    /// are sampled; shorter ones are read as a whole, because some types of frames can
    /// only be made in memory.
    fn choice(&self, tensor: &HeaderTensor) -> Result<Choice> {
        let (engine, options) = (self.engine, self.container.encode);
        let range = self.data.range(&tensor.span);
        let len_bytes = range.end - range.start;
        let Some(samples) = Choice::samples(len_bytes, options) else {
            let bytes = self.data.read(&tensor.span)?;
            let tensor = TensorRef::new(&bytes, tensor.dtype, &tensor.shape);
            return Ok(Choice::new(engine, tensor, options));
        };
        let parts = samples.into_iter().map(|part| {
            let part = range.start + part.start..range.start + part.end;
            self.data.input.read(part).map(Cow::into_owned)
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let dtype = Some(tensor.dtype);
        Ok(Choice::of_samples(engine, len_bytes, dtype, parts, options))
    }

    /// Returns the digests of a tensor that [`FilePacker::large`] wrote at `position`,
    /// with its blocks out of order.
    fn large_digests(
        &self,
        tensor: &HeaderTensor,
        position: u64,
        written: Written,
        output: &Output,
    ) -> Result<Option<FrameDigests>> {
        if !self.options.integrity {
            return Ok(None);
        }
        let frame = output.part(position..position + written.len_bytes)?;
        let table = written.table.as_ref().map(FrameTable::to_bytes);
        Ok(Some(FrameDigests {
            stored: checksum_fed(|sink| frame.feed(0..frame.len_bytes(), sink))?,
            tensor: self.data.digest(&tensor.span)?,
            table: table.unwrap_or_default(),
            statistics: self.large_statistics(tensor)?,
        }))
    }

    /// Returns the statistics of a tensor, which may have any length.
    fn large_statistics(&self, tensor: &HeaderTensor) -> Result<Option<EncodedStatistics>> {
        if !self.options.statistics {
            return Ok(None);
        }
        let HeaderTensor {
            dtype, shape, span, ..
        } = tensor;
        let feed = |part: Range<u64>, sink: &mut dyn FnMut(&[u8])| {
            let part = span.start + part.start..span.start + part.end;
            self.data.feed(&part, sink)
        };
        let len_bytes = span.end - span.start;
        let statistics = Statistics::of_fed(self.engine, *dtype, shape, len_bytes, &feed)?;
        Ok(statistics.map(|statistics| EncodedStatistics::encode(&statistics, *dtype)))
    }

    /// Reads the tensors with these numbers.
    fn read(&self, tensors: &[HeaderTensor], numbers: &[usize]) -> Result<Vec<Cow<'a, [u8]>>> {
        let read = |number: usize| self.data.read(&tensors[number].span);
        self.engine
            .map(numbers.to_vec(), read)
            .into_iter()
            .collect()
    }

    /// Codes the tensors with these numbers, whose bytes are `held`. If the batch is
    /// one large tensor, `held` is empty and nothing is coded.
    fn code(
        &self,
        tensors: &[HeaderTensor],
        numbers: &[usize],
        held: &[Cow<'_, [u8]>],
    ) -> Vec<CodedTensor> {
        let jobs = numbers.iter().copied().zip(held).collect();
        self.engine.map(jobs, |(number, bytes): (usize, _)| {
            let tensor = &tensors[number];
            let tensor_ref = TensorRef::new(bytes, tensor.dtype, &tensor.shape);
            let coded = self.container.code(self.engine, tensor_ref);
            let len_bytes = tensor.span.end - tensor.span.start;
            self.options.progress.advance(len_bytes);
            if self.options.progress.wants_tensors() {
                let storage = finished::frame(&coded.frame);
                self.tell(tensor, storage, coded.frame.len() as u64);
            }
            coded
        })
    }

    /// Reports a coded tensor to the progress.
    fn tell(&self, tensor: &HeaderTensor, storage: String, packed_bytes: u64) {
        let tensor = FinishedTensor::new(tensor, storage, packed_bytes);
        self.options.progress.tensor(&tensor);
    }
}

fn write_all(output: &mut Output, coded: &[CodedTensor]) -> Result<()> {
    coded
        .iter()
        .try_for_each(|coded| output.write_final(&coded.frame))
}
