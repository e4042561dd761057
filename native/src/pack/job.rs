//! The tensors of one file, coded batch by batch and written in their order.

use std::cell::Cell;
use std::mem;
use std::ops::Range;

use zstn_core::container::safetensors::{self, Header};
use zstn_core::container::zstn::integrity::{ChecksumBuilder, FrameDigests, checksum};
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{Writer, aliases};
use zstn_core::digest;
use zstn_core::engine::Engine as _;
use zstn_core::frame::select::{self, Choice};

use super::large::{self, Written};
use super::{PackOptions, batch};
use crate::report::{PackedFile, Storage};
use crate::source::Map;
use crate::{Engine, Output, Result};

/// A file whose tensors are being coded.
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) input: &'a Map,
    pub(crate) data_start: usize,
    pub(crate) options: &'a PackOptions<'a>,
}

impl<'a> Job<'a> {
    /// Place of a span in the input file.
    fn place(&self, span: &Range<u64>) -> Range<usize> {
        let at = |position| self.data_start + zstn_core::bytes::index(position);
        at(span.start)..at(span.end)
    }

    fn tensor(&self, span: &Range<u64>) -> &'a [u8] {
        &self.input[self.place(span)]
    }

    /// Bytes of original data that may be in work at a time: they are mapped,
    /// coded, and the batch before is being written.
    pub(super) fn most_batch_bytes(&self) -> u64 {
        self.options.memory_bytes / 3
    }

    pub(super) fn indexed(
        self,
        header: &[u8],
        parsed: Header,
        output: &mut Output,
    ) -> Result<PackedFile> {
        let mut tensors = parsed.tensors;
        // Of a hundred thousand tensors what is not needed counts.
        for tensor in &mut tensors {
            tensor.shape = Vec::new();
        }
        let data_len = self.input.len() - self.data_start;
        let aliases = self.aliases(&tensors);
        let (mut writer, prefix) =
            Writer::new(self.engine, header, data_len as u64, self.options.integrity);
        output.write(&prefix)?;
        drop(prefix);
        let mut sums = self.options.integrity.then(|| ChecksumBuilder::new(header));

        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let batch_bytes =
            batch::enough_bytes(&lens, self.engine.threads(), self.most_batch_bytes());
        let batches = batch::cut(&lens, &aliases, batch_bytes);
        // The header has been read.
        self.input.release(0..self.data_start);
        let mut pending: Vec<Coded> = Vec::new();
        for batch in batches {
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| aliases[number].is_none())
                .collect();
            let span =
                tensors[batch.tensors.start].span.start..tensors[batch.tensors.end - 1].span.end;
            let place = self.place(&span);
            // Frames of the batch before go out while this one is coded.
            let (coded, written) = self.engine.join(
                || self.code(&tensors, &distinct, batch.large),
                || {
                    if let Some(sums) = &mut sums {
                        // Tied tensors are of any length.
                        let pieces = self.input.pieces(place.clone());
                        pieces.for_each(|piece| sums.data(piece));
                    }
                    write_all(output, &pending)
                },
            );
            written?;
            self.input.release(place);
            pending = coded;
            let mut frames = pending.iter();
            for number in batch.tensors {
                let name = mem::take(&mut tensors[number].name);
                let span = tensors[number].span.clone();
                match aliases[number] {
                    Some(target) => writer.alias(name, span, target)?,
                    None if batch.large => {
                        let start = writer.position();
                        let written = self.large(&tensors[number], start, output)?;
                        writer.frame(name, span.clone(), written.len_bytes);
                        if let Some(sums) = &mut sums {
                            sums.frame(self.large_sums(&span, start, written, output)?);
                        }
                    }
                    None => {
                        let coded = frames.next().expect("a frame for every tensor coded");
                        if let (Some(sums), Some(own)) = (&mut sums, &coded.sums) {
                            sums.frame(own.clone());
                        }
                        writer.frame(name, span, coded.frame.len() as u64);
                    }
                }
            }
        }
        write_all(output, &pending)?;
        let packed_bytes = writer.position();
        let end = writer.finish(sums)?;
        output.write(&end)?;
        Ok(PackedFile {
            input: String::new(),
            output: None,
            original_bytes: self.input.len() as u64,
            packed_bytes: packed_bytes + end.len() as u64,
            tensors: tensors.len(),
            storage: Storage::Indexed {
                aliased: aliases.iter().flatten().count(),
            },
        })
    }

    /// Writes the frame of a tensor that does not fit, at `position` of the
    /// output.
    pub(crate) fn large(
        &self,
        tensor: &safetensors::Tensor,
        position: u64,
        output: &mut Output,
    ) -> Result<Written> {
        let (dtype, effort) = (Some(tensor.dtype), self.options.effort);
        let place = self.place(&tensor.span);
        let choice = Choice::new(self.engine, self.tensor(&tensor.span), dtype, effort);
        self.input.release(place.clone());
        let other = match choice {
            Choice::Whole(frame) => frame,
            Choice::Planes(recipe, other) => {
                let written = large::write(self, place.clone(), &recipe, position, output)?;
                self.input.release(place);
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

    /// What the integrity section says about a tensor that [`Job::large`] has
    /// written at `position`, not block after block in their order.
    fn large_sums(
        &self,
        span: &Range<u64>,
        position: u64,
        written: Written,
        output: &Output,
    ) -> Result<FrameDigests> {
        let at = zstn_core::bytes::index;
        let file = output.map()?;
        let end = position + written.len_bytes;
        let table = written.table.as_ref().map(BlockTable::to_bytes);
        Ok(FrameDigests {
            stored: checksum(file.pieces(at(position)..at(end))),
            tensor: digest::of_pieces(self.input.pieces(self.place(span))),
            table: table.unwrap_or_default(),
        })
    }

    /// The frames of the tensors of those numbers, none for a large one.
    fn code(&self, tensors: &[safetensors::Tensor], numbers: &[usize], large: bool) -> Vec<Coded> {
        if large {
            return Vec::new();
        }
        self.engine.map(numbers.to_vec(), |number| {
            let tensor = &tensors[number];
            let bytes = self.tensor(&tensor.span);
            let effort = self.options.effort;
            let frame = select::encode(self.engine, bytes, Some(tensor.dtype), effort);
            let sums = self
                .options
                .integrity
                .then(|| FrameDigests::of(self.engine, bytes, &frame));
            if bytes.len() >= RELEASED_BYTES {
                self.input.release(self.place(&tensor.span));
            }
            self.options.progress.advance(bytes.len() as u64);
            Coded { frame, sums }
        })
    }

    fn aliases(&self, tensors: &[safetensors::Tensor]) -> Vec<Option<usize>> {
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        // Looking into every tensor would otherwise keep a good part of a large
        // file in memory.
        let seen_from = Cell::new(0);
        let probe = |number: usize| {
            let span = &tensors[number].span;
            let seen = self.place(&(seen_from.get()..span.start));
            if seen.len() >= RELEASED_BYTES {
                self.input.release(seen);
                seen_from.set(span.start);
            }
            self.tensor(span)
        };
        aliases::find(&lens, probe, |number| {
            digest::of_pieces(self.input.pieces(self.place(&tensors[number].span)))
        })
    }
}

/// Tensors, or runs of them, that are released as soon as they have been dealt
/// with: telling the system of single small ones costs more time than they
/// take.
const RELEASED_BYTES: usize = 1 << 20;

/// A frame to be written.
struct Coded {
    frame: Vec<u8>,
    sums: Option<FrameDigests>,
}

fn write_all(output: &mut Output, frames: &[Coded]) -> Result<()> {
    frames
        .iter()
        .try_for_each(|coded| output.write(&coded.frame))
}
