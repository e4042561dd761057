//! Packs one file: its tensors are coded batch by batch and written in their
//! order.

use std::cell::Cell;
use std::mem;
use std::ops::Range;

use zstn_core::TensorRef;
use zstn_core::container::safetensors::{PREFIX_BYTES, Tensor};
use zstn_core::container::zstn::integrity::{FrameDigests, checksum};
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{
    CodedTensor, ContainerBuilder, ContainerOptions, Start, aliases, single_frame,
};
use zstn_core::digest::{self, Digest};
use zstn_core::engine::Engine as _;
use zstn_core::frame::select::Choice;

use super::PackOptions;
use super::batch::{self, Batch};
use super::large::{self, Written};
use super::ties::Ties;
use crate::report::{PackedFile, Storage};
use crate::source::{Arriving, Map, Source};
use crate::{Engine, Error, Output, Result};

/// A file being packed.
pub(crate) struct FilePacker<'a> {
    pub(super) engine: &'a Engine,
    pub(super) input: &'a Map,
    /// Fetches the input, if it is not there yet.
    arriving: Option<&'a Arriving>,
    /// Where the data begin in the input.
    data_start: usize,
    container: ContainerOptions,
    pub(super) options: &'a PackOptions<'a>,
}

impl<'a> FilePacker<'a> {
    /// Prepares to code tensors whose spans count from `data_start` of `input`.
    pub(crate) fn new(
        engine: &'a Engine,
        input: &'a Map,
        data_start: usize,
        options: &'a PackOptions<'a>,
    ) -> Self {
        let container = ContainerOptions::new(options.effort)
            .integrity(options.integrity)
            .allow_truncated(options.allow_truncated);
        Self {
            engine,
            input,
            arriving: None,
            data_start,
            container,
            options,
        }
    }

    /// Fetches the input from `arriving`, whose map it is, as it is needed.
    pub(super) fn arriving(mut self, arriving: Option<&'a Arriving>) -> Self {
        self.arriving = arriving;
        self
    }

    /// Writes the container of the whole file.
    pub(super) fn pack(self, output: &mut Output) -> Result<PackedFile> {
        let (engine, input) = (self.engine, self.input);
        let header = &input[zstn_core::bytes::index(PREFIX_BYTES)..self.data_start];
        let data = &input[self.data_start..];
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
                self.fetch_until(input.len())?;
                self.check_end()?;
                let parts = single_frame(engine, header, data, &self.container);
                parts.iter().try_for_each(|part| output.write_final(part))?;
                self.options.progress.advance(data_len_bytes);
                Ok(PackedFile {
                    input: String::new(),
                    output: None,
                    original_bytes: input.len_bytes(),
                    packed_bytes: parts.iter().map(|part| part.len() as u64).sum(),
                    tensors: 0,
                    storage: Storage::SingleFrame,
                })
            }
        }
    }

    /// Returns the range of a span in the input file.
    fn range(&self, span: &Range<u64>) -> Range<usize> {
        let at = |position| self.data_start + zstn_core::bytes::index(position);
        at(span.start)..at(span.end)
    }

    fn bytes(&self, span: &Range<u64>) -> &'a [u8] {
        &self.input[self.range(span)]
    }

    fn tensor<'t>(&self, tensor: &'t Tensor) -> TensorRef<'t>
    where
        'a: 't,
    {
        TensorRef::new(self.bytes(&tensor.span), tensor.dtype, &tensor.shape)
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
        let mut ties = match self.arriving {
            Some(_) => Ties::unknown(&tensors),
            None => Ties::known(self.aliases(&tensors)),
        };
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let batch_bytes = batch::enough_bytes(&lens, self.engine.threads(), self.max_batch_bytes());
        let batches = batch::cut(&lens, &ties.aliases, batch_bytes);
        // The header has been read.
        self.input.release(0..self.data_start);
        let mut pending: Vec<CodedTensor> = Vec::new();
        let range_of = |tensors: &[Tensor], batch: &Batch| {
            let (first, last) = (batch.tensors.start, batch.tensors.end - 1);
            self.range(&(tensors[first].span.start..tensors[last].span.end))
        };
        let mut batches = batches.into_iter().peekable();
        while let Some(batch) = batches.next() {
            let range = range_of(&tensors, &batch);
            let next_end = match batches.peek() {
                Some(next) => range_of(&tensors, next).end,
                None => range.end,
            };
            self.fetch_until(range.end)?;
            ties.look_at(&self, &tensors, batch.tensors.clone());
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| ties.aliases[number].is_none())
                .collect();
            // Frames of the batch before go out, and the next batch comes in,
            // while this one is coded.
            let (coded, written) = self.engine.join(
                || self.code(&tensors, &distinct, batch.large),
                || {
                    // Aliases take no memory: their tensors are of any length.
                    let pieces = self.input.pieces(range.clone());
                    pieces.for_each(|piece| builder.original(piece));
                    write_all(output, &pending)?;
                    self.fetch_until(next_end)
                },
            );
            written?;
            self.input.release(range.clone());
            pending = coded;
            let mut frames = pending.iter_mut();
            for number in batch.tensors {
                let span = tensors[number].span.clone();
                if let Some(target) = ties.aliases[number] {
                    builder.alias(mem::take(&mut tensors[number].name), span, target)?;
                    continue;
                }
                let (len_bytes, digests) = if batch.large {
                    let start = builder.position();
                    let written = self.large(&tensors[number], start, output)?;
                    let len_bytes = written.len_bytes;
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
            if let Some(arriving) = self.arriving {
                arriving.free_until(range.end as u64);
            }
        }
        self.check_end()?;
        write_all(output, &pending)?;
        let packed_bytes = builder.position();
        let end = builder.finish()?;
        output.write_final(&end)?;
        Ok(PackedFile {
            input: String::new(),
            output: None,
            original_bytes: self.input.len_bytes(),
            packed_bytes: packed_bytes + end.len() as u64,
            tensors: tensors.len(),
            storage: Storage::Indexed {
                aliased: ties.aliases.iter().flatten().count(),
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
        let range = self.range(&tensor.span);
        let choice = Choice::new(self.engine, self.tensor(tensor), self.container.encode);
        self.input.release(range.clone());
        let other = match choice {
            Choice::Whole(frame) => frame,
            Choice::Planes(recipe, other) => {
                let written = large::write(self, range.clone(), &recipe, position, output)?;
                self.input.release(range);
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
            tensor: self.digest(span),
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
            let coded = self.container.code(self.engine, self.tensor(tensor));
            let range = self.range(&tensor.span);
            let len = range.len();
            if len >= MIN_RELEASED_BYTES {
                self.input.release(range);
            }
            self.options.progress.advance(len as u64);
            coded
        })
    }

    fn aliases(&self, tensors: &[Tensor]) -> Vec<Option<usize>> {
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        // A probe of every tensor would otherwise keep a large share of the
        // file in memory.
        let probed_from = Cell::new(0);
        let probe = |number: usize| {
            let span = &tensors[number].span;
            let probed = self.range(&(probed_from.get()..span.start));
            if probed.len() >= MIN_RELEASED_BYTES {
                self.input.release(probed);
                probed_from.set(span.start);
            }
            self.bytes(span)
        };
        aliases::find(&lens, probe, |number| self.digest(&tensors[number].span))
    }

    /// Returns the digest of the tensor in `span`.
    pub(super) fn digest(&self, span: &Range<u64>) -> Digest {
        digest::of_pieces(self.input.pieces(self.range(span)))
    }

    /// Waits until the input is there up to `end`.
    fn fetch_until(&self, end: usize) -> Result<()> {
        let fetch = |arriving: &Arriving| arriving.fetch_until(end as u64);
        self.arriving.map_or(Ok(()), fetch)
    }

    /// Makes sure that the input ends where it should.
    fn check_end(&self) -> Result<()> {
        self.arriving.map_or(Ok(()), Arriving::check_end)
    }
}

/// The least length, in bytes, of tensors or runs of them whose pages are
/// released as soon as they have been read: for small ones the system call
/// costs more time than their memory is worth.
const MIN_RELEASED_BYTES: usize = 1 << 20;

fn write_all(output: &mut Output, coded: &[CodedTensor]) -> Result<()> {
    coded
        .iter()
        .try_for_each(|coded| output.write_final(&coded.frame))
}
