//! A safetensors file to a ZSTN container, in bounded memory.
//!
//! Tensors are coded in batches that fit the memory allowed, a batch on all
//! threads while the one before is written; a tensor too large for that goes
//! plane by plane (`large`). The bytes are the same either way, and the
//! same for any number of threads.

use std::ops::Range;
use std::path::Path;

use zstn_core::catalog::{self, Recognised};
use zstn_core::container::safetensors::{self, Header};
use zstn_core::container::zstn::integrity::{FrameSums, Sums, checksum};
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{self, Writer, ties};
use zstn_core::engine::Engine;
use zstn_core::frame::select::{self, Effort, Ranking};

use crate::source::{Map, Place, Source};
use crate::{Error, Native, Output, Progress, Result};

pub(crate) mod batch;
mod large;

use large::Written;

/// Least memory the packer can be held to, in bytes: a few blocks per thread.
pub const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// How to pack.
#[derive(Clone, Copy)]
pub struct PackOptions<'a> {
    /// Time against space.
    pub effort: Effort,
    /// Memory to stay within, roughly, in bytes; at least
    /// [`LEAST_MEMORY_BYTES`]. It never changes the output.
    pub memory_bytes: u64,
    /// Whether a container gets an integrity section
    /// (docs/formats/zstn-integrity.md). Deltas have their seal in any case.
    pub integrity: bool,
    /// Told the original bytes dealt with.
    pub progress: &'a dyn Progress,
}

impl Default for PackOptions<'_> {
    fn default() -> Self {
        Self {
            effort: Effort::default(),
            memory_bytes: 1 << 30,
            integrity: true,
            progress: &(),
        }
    }
}

impl PackOptions<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_bytes >= LEAST_MEMORY_BYTES {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "packing needs at least {} MiB of memory",
            LEAST_MEMORY_BYTES >> 20
        )))
    }
}

/// What packing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackReport {
    /// Length of the safetensors file.
    pub original_bytes: u64,
    /// Length of the container.
    pub packed_bytes: u64,
    /// Tensors in the file.
    pub tensors: usize,
    /// Tensors stored as references to others with the same bytes.
    pub tied: usize,
    /// Whether single tensors can be read from the result. Not so for a file
    /// that breaks the safetensors rules: it is kept whole, as one frame.
    pub indexed: bool,
}

/// Packs the file at `input`, a path or an http(s) address, into `output`.
pub fn pack(
    engine: &Native,
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &PackOptions,
) -> Result<PackReport> {
    let place = Place::from(&*input.as_ref().to_string_lossy());
    let map = match place {
        Place::Path(_) => Map::open(input.as_ref())?,
        other => other.whole(&|_, _| ())?,
    };
    let output = Output::create(output.as_ref())?;
    pack_map(engine, &map, output, options)
}

/// Packs a mapped file.
pub fn pack_map(
    engine: &Native,
    input: &Map,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackReport> {
    options.check()?;
    let refuse = Error::place(input.name());
    if input.starts_with(&zstn::MAGIC) {
        return Err(Error::Usage(format!("{} is packed already", input.name())));
    }
    let head = &input[..input.len().min(16)];
    let kind = catalog::recognise(head, input.len_bytes()).map_err(&refuse)?;
    if kind == Recognised::Delta {
        return Err(Error::Usage(format!(
            "{} is packed already, as a difference from another checkpoint",
            input.name()
        )));
    }
    if kind != Recognised::Safetensors {
        return Err(Error::Usage(format!(
            "{} is no safetensors file; `zstn convert` packs files of other kinds",
            input.name()
        )));
    }
    let header_len = safetensors::header_len_bytes(input, input.len_bytes()).map_err(&refuse)?;
    let data_start = zstn_core::bytes::index(safetensors::PREFIX_BYTES + header_len);
    let (header, data) = (&input[8..data_start], &input[data_start..]);

    options.progress.begin(data.len() as u64);
    let report = match Header::parse(header, data.len() as u64) {
        Ok(parsed) if zstn::names_fit(&parsed) => {
            let job = Job {
                engine,
                input,
                data_start,
                options,
            };
            job.indexed(header, parsed, &mut output)?
        }
        _ => single_frame(engine, header, data, &mut output, options)?,
    };
    output.finish()?;
    Ok(report)
}

/// A file whose tensors are being coded.
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a Native,
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
    fn batch_bytes(&self) -> u64 {
        self.options.memory_bytes / 3
    }

    fn indexed(self, header: &[u8], parsed: Header, output: &mut Output) -> Result<PackReport> {
        let tensors = parsed.tensors;
        let data_len = self.input.len() - self.data_start;
        let ties = self.ties(&tensors);
        let (mut writer, prefix) =
            Writer::new(self.engine, header, data_len as u64, self.options.integrity);
        output.write(&prefix)?;
        let mut sums = self.options.integrity.then(|| Sums::new(header));

        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let batches = batch::cut(&lens, &ties, self.batch_bytes());
        let mut pending: Vec<Coded> = Vec::new();
        for batch in batches {
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| ties[number].is_none())
                .collect();
            // Frames of the batch before go out while this one is coded.
            let (coded, written) = self.engine.join(
                || self.code(&tensors, &distinct, batch.large),
                || {
                    if let Some(sums) = &mut sums {
                        let spans = tensors[batch.tensors.clone()].iter().map(|t| &t.span);
                        let pieces = spans.flat_map(|span| self.input.pieces(self.place(span)));
                        pieces.for_each(|piece| sums.data(piece));
                    }
                    write_all(output, &pending)
                },
            );
            written?;
            pending = coded;
            let mut frames = pending.iter();
            for number in batch.tensors {
                let safetensors::Tensor { name, span, .. } = tensors[number].clone();
                match ties[number] {
                    Some(target) => writer.reference(name, span, target)?,
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
        Ok(PackReport {
            original_bytes: self.input.len() as u64,
            packed_bytes: packed_bytes + end.len() as u64,
            tensors: tensors.len(),
            tied: ties.iter().flatten().count(),
            indexed: true,
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
        let ranking = Ranking::new(self.engine, self.tensor(&tensor.span), dtype, effort);
        self.input.release(self.place(&tensor.span));
        let place = self.place(&tensor.span);
        let written = large::write(self, place.clone(), ranking.best(), position, output)?;
        let other = select::alternative(self.engine, self.tensor(&tensor.span), &ranking);
        self.input.release(place);
        let Some(other) = other.filter(|other| (other.len() as u64) < written.len_bytes) else {
            return Ok(written);
        };
        output.set_len(position)?;
        output.seek(position)?;
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
    ) -> Result<FrameSums> {
        let at = zstn_core::bytes::index;
        let file = output.map()?;
        let end = position + written.len_bytes;
        let table = written.table.as_ref().map(BlockTable::to_bytes);
        Ok(FrameSums {
            stored: checksum(file.pieces(at(position)..at(end))),
            tensor: ties::digest(self.input.pieces(self.place(span))),
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
            let sums = self.options.integrity.then(|| FrameSums::of(bytes, &frame));
            self.input.release(self.place(&tensor.span));
            self.options.progress.advance(bytes.len() as u64);
            Coded { frame, sums }
        })
    }

    fn ties(&self, tensors: &[safetensors::Tensor]) -> Vec<Option<usize>> {
        let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
        let probe = |number: usize| {
            // Looking into every tensor would otherwise keep a good part of a
            // large file in memory.
            if number > 0 {
                self.input.release(self.place(&tensors[number - 1].span));
            }
            self.tensor(&tensors[number].span)
        };
        ties::find(&lens, probe, |number| {
            ties::digest(self.input.pieces(self.place(&tensors[number].span)))
        })
    }
}

/// A frame to be written.
struct Coded {
    frame: Vec<u8>,
    sums: Option<FrameSums>,
}

fn write_all(output: &mut Output, frames: &[Coded]) -> Result<()> {
    frames
        .iter()
        .try_for_each(|coded| output.write(&coded.frame))
}

/// The layout for files that are not safetensors by the rules.
fn single_frame(
    engine: &Native,
    header: &[u8],
    data: &[u8],
    output: &mut Output,
    options: &PackOptions,
) -> Result<PackReport> {
    let frame = select::encode(engine, data, None, options.effort);
    let prefix = zstn::single_frame(header, data.len() as u64, frame.len() as u64);
    output.write(&prefix)?;
    output.write(&frame)?;
    options.progress.advance(data.len() as u64);
    Ok(PackReport {
        original_bytes: (8 + header.len() + data.len()) as u64,
        packed_bytes: (prefix.len() + frame.len()) as u64,
        tensors: 0,
        tied: 0,
        indexed: false,
    })
}
