//! Packs a tensor that does not fit into memory together with its coded form: codes and
//! writes its planes a few blocks at a time.

use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::container::zstn::rows::{BlockTable, CHECKSUM_PIECE_BYTES, FrameTable, PlaneBlocks};
use zstn_core::engine::Engine;
use zstn_core::entropy::blocks;
use zstn_core::frame::Edition;
use zstn_core::frame::plane::{self, Method};
use zstn_core::frame::z4ai::{self, PlaneShape, Recipe};

use super::frames::FrameCoder;
use super::pipeline::RecordCoder as _;
use crate::finished_tensor;
use crate::source::Source;
use crate::{Error, Output, Progress as _, Result};

/// The number of bytes that are written at a time for a plane that did not shrink.
const STORED_AT_A_TIME_BYTES: usize = 16 * CHECKSUM_PIECE_BYTES;

/// The maximum number of plane bytes that are extracted from one read.
const EXTRACTED_AT_A_TIME_BYTES: usize = 1 << 20;

/// A frame that has been written to the output.
pub struct Written {
    /// Length of the frame.
    pub len_bytes: u64,
    /// The edition that a file with this frame must have.
    pub edition: Edition,
    /// The block table of the frame, equal to the result of [`FrameTable::of`].
    pub table: Option<FrameTable>,
    /// Describes for people how the frame stores the tensor.
    pub storage: String,
}

/// Writes the frame of the tensor in `range` of the input, at the offset `position` of
/// the output. The bytes equal the output of [`z4ai::encode`].
pub fn write(
    coder: &FrameCoder,
    range: Range<u64>,
    recipe: &Recipe,
    position: u64,
    output: &mut Output,
) -> Result<Written> {
    let len = range.end - range.start;
    let planes = PlaneShape::all(index(len), recipe);
    let elements_len = planes.first().map_or(0, PlaneShape::elements_len_bytes);
    let tail = coder
        .data
        .input
        .read(range.start + elements_len as u64..range.end)?;
    let head = z4ai::head(recipe.transform, &tail);
    output.write(&head)?;
    let mut end = position + head.len() as u64;
    let share = len / planes.len().max(1) as u64;
    let mut tables = Vec::with_capacity(planes.len());
    let mut methods = Vec::with_capacity(planes.len());
    for shape in &planes {
        let record = PlaneRecord {
            coder,
            shape,
            tensor_start: range.start,
            frame_start: position,
            start: end,
        };
        let written = record.write(output)?;
        end = written.end;
        tables.push(written.blocks);
        methods.push(written.method);
        coder.job.advance(share);
    }
    // Reports the remainder of the division.
    let rest = len - share * planes.len() as u64;
    coder.job.advance(rest);
    let len_bytes = end - position;
    let table = BlockTable::new(recipe.transform, &tail, len_bytes, tables);
    Ok(Written {
        len_bytes,
        edition: Edition::Plain,
        table: table.map(FrameTable::Planes),
        storage: finished_tensor::planes(recipe.transform, methods.into_iter()),
    })
}

/// A plane record to be written.
struct PlaneRecord<'a> {
    coder: &'a FrameCoder<'a>,
    shape: &'a PlaneShape,
    /// The offset of the tensor in the input.
    tensor_start: u64,
    /// The offset of the frame in the output.
    frame_start: u64,
    /// The offset of the plane record in the output.
    start: u64,
}

/// A plane record that has been written.
struct WrittenPlane {
    /// The offset of the record's end in the output.
    end: u64,
    blocks: PlaneBlocks,
    method: Method,
}

impl PlaneRecord<'_> {
    fn write(&self, output: &mut Output) -> Result<WrittenPlane> {
        let Self { coder, shape, .. } = self;
        if !shape.is_blockwise() {
            return self.write_whole(output);
        }
        let (method, len) = (shape.block_method(), shape.len_bytes() as u64);
        let table_len = match method {
            Method::Blocks => blocks::table_len_bytes(shape.block_count()) as u64,
            _ => 0,
        };
        output.seek(self.payload_start() + table_len)?;
        let mut table = self.blocks(method, table_len);
        let mut stored_lens = Vec::with_capacity(shape.block_count());
        for group in groups(coder, shape) {
            let numbers = group.collect();
            let coded = coder
                .job
                .engine
                .map(numbers, |block| self.encode_block(block));
            for block in coded {
                let block = block?;
                output.write(&block)?;
                table.push(&block);
                stored_lens.push(u32::try_from(block.len()).expect("a block is a few MiB"));
            }
        }
        let payload_len = table_len + stored_lens.iter().map(|&l| u64::from(l)).sum::<u64>();
        if payload_len >= len && method != Method::Store {
            return self.store(output);
        }
        output.write_at(&plane::head(method, len, payload_len), self.start)?;
        if table_len > 0 {
            let table = blocks::table(shape.block_bytes(), &stored_lens);
            output.write_at(&table, self.payload_start())?;
        }
        Ok(WrittenPlane {
            end: self.payload_start() + payload_len,
            blocks: table,
            method,
        })
    }

    fn encode_block(&self, number: usize) -> Result<Vec<u8>> {
        let (engine, block) = (&self.coder.job.engine, self.shape.block(number));
        let mut buffer = engine.recycled();
        if buffer.len() < block.len() {
            buffer = vec![0; block.len()];
        }
        let raw = &mut buffer[..block.len()];
        self.extract(block.start, raw)?;
        let coded = self.shape.encode_raw(engine, raw);
        engine.recycle(buffer);
        Ok(coded)
    }

    /// Reads the bytes of the tensor that the plane's bytes from `start` onwards are
    /// made of, and extracts these plane bytes to `out`.
    fn extract(&self, mut start: usize, mut out: &mut [u8]) -> Result<()> {
        let part_bytes = self.shape.part_bytes().max(1);
        while !out.is_empty() {
            let left_in_part = part_bytes - start % part_bytes;
            let len = out.len().min(left_in_part).min(EXTRACTED_AT_A_TIME_BYTES);
            let source = self.shape.source(start..start + len);
            let at = |offset: usize| self.tensor_start + offset as u64;
            let source = at(source.start)..at(source.end);
            let bytes = self.coder.data.input.read(source)?;
            let (now, rest) = out.split_at_mut(len);
            self.shape.extract_from(&bytes, start, now);
            (start, out) = (start + len, rest);
        }
        Ok(())
    }

    /// Writes a plane that is coded as a whole.
    fn write_whole(&self, output: &mut Output) -> Result<WrittenPlane> {
        let mut raw = zstn_core::bytes::buffer(self.shape.len_bytes() as u64)?;
        self.extract(0, &mut raw)?;
        let (method, payload) = self.shape.encode_plane(&self.coder.job.engine, raw);
        let (len, payload_len) = (self.shape.len_bytes() as u64, payload.len() as u64);
        output.seek(self.start)?;
        output.write(&plane::head(method, len, payload_len))?;
        output.write(&payload)?;
        let place = self.payload_start() - self.frame_start;
        let blocks = PlaneBlocks::of(method, len, &payload, place)
            .map_err(Error::place(self.coder.data.input.name()))?;
        Ok(WrittenPlane {
            end: self.payload_start() + payload_len,
            blocks,
            method,
        })
    }

    /// Writes the plane uncompressed, because coding did not make it smaller.
    fn store(&self, output: &mut Output) -> Result<WrittenPlane> {
        let len = self.shape.len_bytes();
        output.cut(self.start)?;
        output.seek(self.start)?;
        output.write(&plane::head(Method::Store, len as u64, len as u64))?;
        let mut blocks = self.blocks(Method::Store, 0);
        for start in (0..len).step_by(STORED_AT_A_TIME_BYTES) {
            let mut raw = vec![0; STORED_AT_A_TIME_BYTES.min(len - start)];
            self.extract(start, &mut raw)?;
            output.write(&raw)?;
            blocks.push(&raw);
        }
        Ok(WrittenPlane {
            end: self.payload_start() + len as u64,
            blocks,
            method: Method::Store,
        })
    }

    fn payload_start(&self) -> u64 {
        self.start + plane::HEAD_BYTES as u64
    }

    /// Returns a block table for the plane without any blocks; the first block begins
    /// at the offset `table_len` of the payload.
    fn blocks(&self, method: Method, table_len: u64) -> PlaneBlocks {
        let len = self.shape.len_bytes() as u64;
        let place = self.payload_start() + table_len - self.frame_start;
        PlaneBlocks::new(method, len, place, self.shape.block_bytes().into())
    }
}

/// Returns the ranges of blocks to code at the same time. A range has the number of
/// blocks that fit into the allowed memory, but at least one block for each thread.
fn groups(coder: &FrameCoder, shape: &PlaneShape) -> impl Iterator<Item = Range<usize>> {
    let source_bytes = shape.source(shape.block(0)).len().max(1) as u64;
    let max_bytes = coder.job.memory() / FrameCoder::MEMORY_SHARES;
    let fit = usize::try_from(max_bytes / source_bytes).unwrap_or(usize::MAX);
    let count = shape.block_count();
    let step = fit.max(coder.job.engine.threads());
    (0..count)
        .step_by(step)
        .map(move |start| start..count.min(start.saturating_add(step)))
}
