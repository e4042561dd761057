//! Packs a file into a container: codes every distinct tensor as a frame.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::TensorRef;
use zstn_core::checksum::checksum_fed;
use zstn_core::container::safetensors::{HeaderTensor, PREFIX_BYTES};
use zstn_core::container::zstn::integrity::{EncodedStatistics, FrameDigests, OriginalHash};
use zstn_core::container::zstn::rows::FrameTable;
use zstn_core::container::zstn::virtual_header::VirtualHeader;
use zstn_core::container::zstn::{
    ContainerBuilder, ContainerOptions, ContainerStart, StoredFrame, single_frame, version,
};
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::frame::select::Choice;
use zstn_core::statistics::Statistics;

use super::Packed;
use super::aliases::Aliases;
use super::large_tensor::{self, Written};
use super::pipeline::{Coded, Pipeline, Record, RecordCoder, RecordList};
use super::tensor_data::Data;
use crate::finished_tensor::{self, FinishedTensor};
use crate::report::Storage;
use crate::source::Source;
use crate::{Error, Job, Output, Progress as _, Result};

/// Codes tensors of a file as frames.
pub(crate) struct FrameCoder<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) data: Data<'a>,
    options: ContainerOptions,
    /// The virtual header, if the file is not a safetensors file.
    virtual_header: Option<&'a VirtualHeader>,
}

impl RecordCoder for FrameCoder<'_> {
    type Entry = Option<FrameDigests>;

    /// The shares are for the tensors, their planes and their coded forms.
    const MEMORY_SHARES: u64 = 3;

    fn code(&self, tensor: &HeaderTensor, bytes: &[u8]) -> Result<Coded<Self::Entry>> {
        let coded = self
            .options
            .code(&self.job.engine, self.content(tensor, bytes));
        if self.job.wants_tensors() {
            let storage = finished_tensor::frame(&coded.frame);
            self.report(tensor, storage, coded.frame.len() as u64);
        }
        Ok(Coded {
            edition: Edition::of_frame(&coded.frame),
            bytes: coded.frame,
            entry: coded.digests,
        })
    }

    fn write_large(
        &self,
        tensor: &HeaderTensor,
        position: u64,
        output: &mut Output,
    ) -> Result<Record<Self::Entry>> {
        let written = self.write_frame(tensor, position, output)?;
        let (len_bytes, edition) = (written.len_bytes, written.edition);
        if self.job.wants_tensors() {
            self.report(tensor, written.storage.clone(), len_bytes);
        }
        let digests = self.large_digests(tensor, position, &written, output)?;
        // Blocks are written out of order and the frame is read back, which moves the
        // position on some systems.
        output.seek(position + len_bytes)?;
        Ok(Record {
            len_bytes,
            edition,
            entry: digests,
        })
    }
}

impl RecordList for ContainerBuilder {
    type Entry = Option<FrameDigests>;
    type Hash = OriginalHash;

    fn position(&self) -> u64 {
        Self::position(self)
    }

    fn version(&self) -> u8 {
        Self::version(self)
    }

    fn take_hash(&mut self) -> Option<OriginalHash> {
        self.take_original_hash()
    }

    fn set_hash(&mut self, hash: OriginalHash) {
        self.set_original_hash(hash);
    }

    fn add(&mut self, tensor: &HeaderTensor, record: Record<Self::Entry>) {
        let frame = StoredFrame {
            len_bytes: record.len_bytes,
            edition: record.edition,
            digests: record.entry,
        };
        self.frame(tensor.name.clone(), tensor.span.clone(), frame);
    }

    fn add_alias(&mut self, tensor: &HeaderTensor, target: usize) -> Result<()> {
        Ok(self.alias(tensor.name.clone(), tensor.span.clone(), target)?)
    }
}

/// Returns a tensor as the encoder takes it, in a file with this virtual header, if it has
/// one.
pub(crate) fn content<'t>(
    virtual_header: Option<&VirtualHeader>,
    tensor: &'t HeaderTensor,
    bytes: &'t [u8],
) -> TensorRef<'t> {
    match virtual_header {
        Some(header) => header.codings().content(tensor, bytes),
        None => TensorRef::new(bytes, tensor.dtype, &tensor.shape),
    }
}

impl<'a> FrameCoder<'a> {
    /// Returns a coder for the tensors of `data`.
    pub(crate) fn new(job: &'a Job<'a>, data: Data<'a>, options: ContainerOptions) -> Self {
        Self {
            job,
            data,
            options,
            virtual_header: None,
        }
    }

    /// Uses the virtual header of a file that is not a safetensors file.
    pub(crate) fn virtual_header(mut self, header: Option<&'a VirtualHeader>) -> Self {
        self.virtual_header = header;
        self
    }

    /// Returns a tensor as the encoder takes it.
    fn content<'t>(&self, tensor: &'t HeaderTensor, bytes: &'t [u8]) -> TensorRef<'t> {
        content(self.virtual_header, tensor, bytes)
    }

    /// Writes the container of a file with this virtual header.
    pub(super) fn write_original(
        mut self,
        header: &'a VirtualHeader,
        output: &mut Output,
    ) -> Result<Packed> {
        self.virtual_header = Some(header);
        let (engine, input) = (&self.job.engine, self.data.input);
        let len_bytes = input.len_bytes();
        self.job.begin(len_bytes);
        let start =
            ContainerBuilder::start_virtual(engine, header.json(), len_bytes, &self.options)
                .map_err(Error::place(input.name()))?;
        match start {
            ContainerStart::Indexed {
                builder,
                prefix,
                tensors,
            } => {
                let packed = self.write_indexed(builder, &prefix, &tensors, output)?;
                Ok(Packed {
                    tensors: header.tensor_count(),
                    ..packed
                })
            }
            ContainerStart::SingleFrame => self.write_single_frame(header.json(), output),
        }
    }

    /// Writes the container of the whole file, which is a safetensors file.
    pub(super) fn write_container(&self, output: &mut Output) -> Result<Packed> {
        let (engine, input) = (&self.job.engine, self.data.input);
        let data_len_bytes = input.len_bytes() - self.data.start;
        let header = input.read(PREFIX_BYTES..self.data.start)?;
        self.job.begin(data_len_bytes);
        let start = ContainerBuilder::start(engine, &header, data_len_bytes, &self.options)
            .map_err(Error::place(input.name()))?;
        match start {
            ContainerStart::Indexed {
                builder,
                prefix,
                tensors,
            } => {
                drop(header);
                self.write_indexed(builder, &prefix, &tensors, output)
            }
            ContainerStart::SingleFrame => self.write_single_frame(&header, output),
        }
    }

    /// Writes a container with a frame for every distinct tensor.
    fn write_indexed(
        &self,
        mut builder: ContainerBuilder,
        prefix: &[u8],
        tensors: &[HeaderTensor],
        output: &mut Output,
    ) -> Result<Packed> {
        let mut aliases = Aliases::of(&self.data, tensors)?;
        let pipeline = Pipeline {
            job: self.job,
            data: self.data,
            tensors,
            coder: self,
            latest_version: self
                .options
                .encode
                .is_extended()
                .then(|| version(Edition::Extended)),
        };
        pipeline.run(prefix, &mut aliases, &mut builder, output)?;
        let position = builder.position();
        let end = builder.finish()?;
        output.write_final(&end.bytes)?;
        Ok(Packed {
            len_bytes: position + end.bytes.len() as u64,
            tensors: tensors.len(),
            storage: Storage::Indexed {
                aliased: aliases.count(),
            },
        })
    }

    /// Writes a container with one frame, for a file that breaks the rules of
    /// safetensors.
    fn write_single_frame(&self, header: &[u8], output: &mut Output) -> Result<Packed> {
        self.data.store_all()?;
        self.data.check_end()?;
        let data_len_bytes = self.data.input.len_bytes() - self.data.start;
        let data = self.data.read(&(0..data_len_bytes))?;
        let parts = single_frame(&self.job.engine, header, &data, &self.options)
            .map_err(Error::place(self.data.input.name()))?;
        parts.iter().try_for_each(|part| output.write_final(part))?;
        self.job.advance(data_len_bytes);
        Ok(Packed {
            len_bytes: parts.iter().map(|part| part.len() as u64).sum(),
            tensors: 0,
            storage: Storage::SingleFrame,
        })
    }

    /// Writes the frame of a tensor that does not fit into memory, at the offset
    /// `position` of the output.
    pub(crate) fn write_frame(
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
                let written = large_tensor::write(self, range, &recipe, position, output)?;
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
            storage: finished_tensor::frame(&other),
        })
    }

    /// Chooses how to code a tensor that does not fit into memory. Very long tensors
    /// are sampled; shorter ones are read as a whole, because some types of frames can
    /// only be made in memory.
    fn choice(&self, tensor: &HeaderTensor) -> Result<Choice> {
        let (engine, options) = (&self.job.engine, self.options.encode);
        let range = self.data.range(&tensor.span);
        let len_bytes = range.end - range.start;
        let Some(samples) = Choice::samples(len_bytes, options) else {
            let bytes = self.data.read(&tensor.span)?;
            return Ok(Choice::new(engine, self.content(tensor, &bytes), options));
        };
        let parts = samples.into_iter().map(|part| {
            let part = range.start + part.start..range.start + part.end;
            self.data.input.read(part).map(Cow::into_owned)
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let content = self.content(tensor, &[]);
        Ok(Choice::of_samples(
            engine, len_bytes, content, parts, options,
        ))
    }

    /// Returns the digests of a tensor that [`FrameCoder::write_frame`] wrote at
    /// `position`, with its blocks out of order.
    fn large_digests(
        &self,
        tensor: &HeaderTensor,
        position: u64,
        written: &Written,
        output: &Output,
    ) -> Result<Option<FrameDigests>> {
        if !self.options.has_integrity {
            return Ok(None);
        }
        let frame = output.part(position..position + written.len_bytes)?;
        let frame = Data::new(self.job, &frame, 0);
        let table = written.table.as_ref().map(FrameTable::to_bytes);
        let (stored, of_tensor) = self.job.engine.join(
            || checksum_fed(|sink| frame.feed(&(0..written.len_bytes), sink)),
            || {
                Ok::<_, Error>((
                    self.data.digest(&tensor.span)?,
                    self.large_statistics(tensor)?,
                ))
            },
        );
        let (stored, (tensor, statistics)) = (stored?, of_tensor?);
        Ok(Some(FrameDigests {
            stored,
            tensor,
            table: table.unwrap_or_default(),
            statistics,
        }))
    }

    /// Returns the statistics of a tensor, which may have any length.
    fn large_statistics(&self, tensor: &HeaderTensor) -> Result<Option<EncodedStatistics>> {
        let is_plain = self
            .virtual_header
            .is_none_or(|header| header.codings().is_plain(tensor));
        if !self.options.has_statistics || !is_plain {
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
        let statistics = Statistics::of_fed(&self.job.engine, *dtype, shape, len_bytes, &feed)?;
        Ok(statistics.map(|statistics| EncodedStatistics::encode(&statistics, *dtype)))
    }

    /// Reports a coded tensor to the progress.
    fn report(&self, tensor: &HeaderTensor, storage: String, packed_bytes: u64) {
        let tensor = FinishedTensor::new(tensor, storage, packed_bytes);
        self.job.tensor(&tensor);
    }
}
