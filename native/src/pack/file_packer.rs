//! Packs one file: its tensors are coded batch by batch and written in their
//! order.

use std::mem;
use std::ops::Range;

use zstn_core::container::safetensors::{PREFIX_BYTES, Tensor};
use zstn_core::container::zstn::integrity::{FrameDigests, checksum};
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{
    CodedTensor, ContainerBuilder, ContainerOptions, Start, single_frame,
};
use zstn_core::engine::Engine as _;
use zstn_core::frame::select::Choice;

use super::PackOptions;
use super::aliases::Aliases;
use super::batch::{self, Batch};
use super::data::Data;
use super::large::{self, Written};
use crate::report::{PackedFile, Storage};
use crate::source::Source;
use crate::{Engine, Error, Output, Result};

/// A file being packed.
pub(crate) struct FilePacker<'a> {
    pub(super) engine: &'a Engine,
    pub(super) data: Data<'a>,
    container: ContainerOptions,
    pub(super) options: &'a PackOptions<'a>,
}

impl<'a> FilePacker<'a> {
    /// Prepares to code the tensors of `data`.
    pub(crate) fn new(engine: &'a Engine, data: Data<'a>, options: &'a PackOptions<'a>) -> Self {
        let container = ContainerOptions::new(options.effort)
            .integrity(options.integrity)
            .allow_truncated(options.allow_truncated);
        Self {
            engine,
            data,
            container,
            options,
        }
    }

    /// Writes the container of the whole file.
    pub(super) fn pack(self, output: &mut Output) -> Result<PackedFile> {
        let (engine, input) = (self.engine, self.data.map);
        let (head, data) = input.split_at(self.data.start);
        let header = &head[zstn_core::bytes::index(PREFIX_BYTES)..];
        let data_len_bytes = data.len() as u64;
        self.options.progress.begin(data_len_bytes);
        let start = ContainerBuilder::start(engine, header, data_len_bytes, &self.container)
            .map_err(Error::place(input.name()))?;
        match start {
            Start::Indexed {
                builder,
                prefix,
                tensors,
            } => self.indexed(builder, prefix, tensors, output),
            Start::SingleFrame => {
                self.data.check_end()?;
                let parts = single_frame(engine, header, data, &self.container);
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

    /// Returns the most bytes of original data that may be in work at a time:
    /// they are mapped and coded while the batch before is being written.
    pub(super) fn max_batch_bytes(&self) -> u64 {
        self.options.memory_bytes / 3
    }

    fn indexed(
        self,
        mut builder: ContainerBuilder,
        prefix: Vec<u8>,
        mut tensors: Vec<Tensor>,
        output: &mut Output,
    ) -> Result<PackedFile> {
        output.write_final(&prefix)?;
        drop(prefix);
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let mut aliases = Aliases::of(&self.data, &tensors, &lens);
        let batch_bytes = batch::enough_bytes(&lens, self.engine.threads(), self.max_batch_bytes());
        let batches = batch::cut(&lens, aliases.targets(), batch_bytes);
        // The header has been read.
        self.data.map.release(0..self.data.start);
        let mut pending: Vec<CodedTensor> = Vec::new();
        let end_of = |tensors: &[Tensor], batch: &Batch| tensors[batch.tensors.end - 1].span.end;
        let mut batches = batches.into_iter().peekable();
        while let Some(batch) = batches.next() {
            let span = tensors[batch.tensors.start].span.start..end_of(&tensors, &batch);
            let next_end = batches
                .peek()
                .map_or(span.end, |next| end_of(&tensors, next));
            self.data.fetch_until(span.end)?;
            aliases.look_at(self.engine, &self.data, &tensors, batch.tensors.clone());
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| aliases.of_tensor(number).is_none())
                .collect();
            // Frames of the batch before go out, and the next batch comes in,
            // while this one is coded.
            let (coded, written) = self.engine.join(
                || self.code(&tensors, &distinct, batch.large),
                || {
                    // Aliases take no memory: their tensors are of any length.
                    let pieces = self.data.pieces(&span);
                    pieces.for_each(|piece| builder.original(piece));
                    write_all(output, &pending)?;
                    self.data.fetch_until(next_end)
                },
            );
            written?;
            self.data.release(&span);
            pending = coded;
            let mut frames = pending.iter_mut();
            for number in batch.tensors {
                let span = tensors[number].span.clone();
                if let Some(target) = aliases.of_tensor(number) {
                    builder.alias(mem::take(&mut tensors[number].name), span, target)?;
                    continue;
                }
                let (len_bytes, digests) = if batch.large {
                    let start = builder.position();
                    let written = self.large(&tensors[number], start, output)?;
                    let len_bytes = written.len_bytes;
                    // Blocks are written out of order, which moves the position
                    // on some systems.
                    output.seek(start + len_bytes)?;
                    (
                        len_bytes,
                        self.large_digests(&span, start, written, output)?,
                    )
                } else {
                    let coded = frames.next().expect("a frame for every tensor coded");
                    (coded.frame.len() as u64, coded.digests.take())
                };
                let name = mem::take(&mut tensors[number].name);
                builder.frame(name, span, len_bytes, digests);
            }
            if batch.large {
                output.settle()?;
            }
            self.data.free_until(span.end);
        }
        self.data.check_end()?;
        write_all(output, &pending)?;
        let packed_bytes = builder.position();
        let end = builder.finish()?;
        output.write_final(&end)?;
        Ok(PackedFile {
            input: String::new(),
            output: None,
            upload: None,
            original_bytes: self.data.map.len_bytes(),
            packed_bytes: packed_bytes + end.len() as u64,
            tensors: tensors.len(),
            storage: Storage::Indexed {
                aliased: aliases.count(),
            },
        })
    }

    /// Writes the frame of a tensor that does not fit into memory, at
    /// `position` of the output.
    pub(crate) fn large(
        &self,
        tensor: &Tensor,
        position: u64,
        output: &mut Output,
    ) -> Result<Written> {
        let tensor_ref = self.data.tensor(tensor);
        let choice = Choice::new(self.engine, tensor_ref, self.container.encode);
        self.data.release(&tensor.span);
        let other = match choice {
            Choice::Whole(frame) => frame,
            Choice::Planes(recipe, other) => {
                let range = self.data.range(&tensor.span);
                let written = large::write(self, range, &recipe, position, output)?;
                self.data.release(&tensor.span);
                let is_less = |other: &Vec<u8>| (other.len() as u64) < written.len_bytes;
                let Some(other) = other.filter(is_less) else {
                    return Ok(written);
                };
                output.set_len(position)?;
                output.seek(position)?;
                other
            }
        };
        output.write(&other)?;
        Ok(Written {
            len_bytes: other.len() as u64,
            table: BlockTable::of(&other),
        })
    }

    /// Returns the digests of a tensor that [`FilePacker::large`] has written
    /// at `position`, with blocks out of order.
    fn large_digests(
        &self,
        span: &Range<u64>,
        position: u64,
        written: Written,
        output: &Output,
    ) -> Result<Option<FrameDigests>> {
        if !self.options.integrity {
            return Ok(None);
        }
        let frame = output.map_range(position..position + written.len_bytes)?;
        let table = written.table.as_ref().map(BlockTable::to_bytes);
        Ok(Some(FrameDigests {
            stored: checksum(frame.pieces(0..frame.len())),
            tensor: self.data.digest(span),
            table: table.unwrap_or_default(),
        }))
    }

    /// Codes the tensors with these numbers; none of a batch that is one large
    /// tensor.
    fn code(&self, tensors: &[Tensor], numbers: &[usize], large: bool) -> Vec<CodedTensor> {
        if large {
            return Vec::new();
        }
        self.engine.map(numbers.to_vec(), |number| {
            let tensor = &tensors[number];
            let tensor_ref = self.data.tensor(tensor);
            let coded = self.container.code(self.engine, tensor_ref);
            self.data.release_if_long(&tensor.span);
            let len_bytes = tensor.span.end - tensor.span.start;
            self.options.progress.advance(len_bytes);
            coded
        })
    }
}

fn write_all(output: &mut Output, coded: &[CodedTensor]) -> Result<()> {
    coded
        .iter()
        .try_for_each(|coded| output.write_final(&coded.frame))
}
