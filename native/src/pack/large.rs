//! A tensor that does not fit into memory with its coded form: its planes are
//! coded and written a few blocks at a time.

use std::ops::Range;

use zstn_core::container::zstn::rows::{BlockTable, CHECKSUM_PIECE_BYTES, FrameTable, PlaneBlocks};
use zstn_core::engine::Engine;
use zstn_core::entropy::blocks;
use zstn_core::frame::Edition;
use zstn_core::frame::plane::{self, Method};
use zstn_core::frame::z4ai::{self, PlaneCoder, Recipe};

use super::FilePacker;
use crate::source::Source;
use crate::{Error, Output, Result};

/// Bytes of a plane that did not shrink, written at a time.
const STORED_AT_A_TIME_BYTES: usize = 16 * CHECKSUM_PIECE_BYTES;

/// A frame that has been written.
pub struct Written {
    /// Length of the frame.
    pub len_bytes: u64,
    /// The edition that a file with it has to be.
    pub edition: Edition,
    /// Its [`FrameTable::of`].
    pub table: Option<FrameTable>,
}

/// Writes the frame of the tensor in `range` of the input, at
/// `position` of the output. The bytes are those of [`z4ai::encode`].
pub fn write(
    packer: &FilePacker,
    range: Range<usize>,
    recipe: &Recipe,
    position: u64,
    output: &mut Output,
) -> Result<Written> {
    let (planes, tail) = PlaneCoder::all(&packer.data.map[range.clone()], recipe);
    let head = z4ai::head(recipe.transform, tail);
    output.write(&head)?;
    let mut end = position + head.len() as u64;
    let share = range.len() as u64 / planes.len().max(1) as u64;
    let mut tables = Vec::with_capacity(planes.len());
    for coder in &planes {
        let record = PlaneRecord {
            packer,
            coder,
            tensor_start: range.start,
            frame_start: position,
            start: end,
        };
        let (record_end, blocks) = record.write(output)?;
        end = record_end;
        tables.push(blocks);
        packer.options.progress.advance(share);
    }
    // The remainder of the division.
    let rest = range.len() as u64 - share * planes.len() as u64;
    packer.options.progress.advance(rest);
    let len_bytes = end - position;
    let table = BlockTable::new(recipe.transform, tail, len_bytes, tables);
    Ok(Written {
        len_bytes,
        edition: Edition::Plain,
        table: table.map(FrameTable::Planes),
    })
}

/// A plane record to be written.
struct PlaneRecord<'a> {
    packer: &'a FilePacker<'a>,
    coder: &'a PlaneCoder<'a>,
    /// Where the tensor begins in the input.
    tensor_start: usize,
    /// Where its frame begins in the output.
    frame_start: u64,
    /// Where the record begins there.
    start: u64,
}

impl PlaneRecord<'_> {
    /// Writes the record and returns its end and its blocks.
    fn write(&self, output: &mut Output) -> Result<(u64, PlaneBlocks)> {
        let Self { packer, coder, .. } = self;
        if !coder.is_blockwise() {
            return self.write_whole(output);
        }
        let (method, len) = (coder.block_method(), coder.len_bytes() as u64);
        let table_len = match method {
            Method::Blocks => blocks::table_len_bytes(coder.block_count()) as u64,
            _ => 0,
        };
        output.seek(self.payload_start() + table_len)?;
        let mut table = self.blocks(method, table_len);
        let mut stored_lens = Vec::with_capacity(coder.block_count());
        for group in groups(packer, coder) {
            let coded = packer.engine.map(group.clone().collect(), |block| {
                coder.encode_block(packer.engine, block)
            });
            group.for_each(|block| self.release(coder.block(block)));
            for block in coded {
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
            let table = blocks::table(coder.block_bytes(), &stored_lens);
            output.write_at(&table, self.payload_start())?;
        }
        Ok((self.payload_start() + payload_len, table))
    }

    /// Writes a plane that is coded as a whole.
    fn write_whole(&self, output: &mut Output) -> Result<(u64, PlaneBlocks)> {
        let (method, payload) = self.coder.encode_whole(self.packer.engine);
        let (len, payload_len) = (self.coder.len_bytes() as u64, payload.len() as u64);
        output.seek(self.start)?;
        output.write(&plane::head(method, len, payload_len))?;
        output.write(&payload)?;
        let place = self.payload_start() - self.frame_start;
        let blocks = PlaneBlocks::of(method, len, &payload, place)
            .map_err(Error::place(self.packer.data.map.name()))?;
        Ok((self.payload_start() + payload_len, blocks))
    }

    /// Writes the plane uncompressed, since coding has gained nothing.
    fn store(&self, output: &mut Output) -> Result<(u64, PlaneBlocks)> {
        let len = self.coder.len_bytes();
        output.cut(self.start)?;
        output.seek(self.start)?;
        output.write(&plane::head(Method::Store, len as u64, len as u64))?;
        let mut blocks = self.blocks(Method::Store, 0);
        for start in (0..len).step_by(STORED_AT_A_TIME_BYTES) {
            let part = start..len.min(start + STORED_AT_A_TIME_BYTES);
            let mut raw = vec![0; part.len()];
            self.coder.extract(start, &mut raw);
            output.write(&raw)?;
            blocks.push(&raw);
            self.release(part);
        }
        Ok((self.payload_start() + len as u64, blocks))
    }

    fn payload_start(&self) -> u64 {
        self.start + plane::HEAD_BYTES as u64
    }

    /// Returns the table of the plane without blocks so far; they begin
    /// `table_len` bytes into the payload.
    fn blocks(&self, method: Method, table_len: u64) -> PlaneBlocks {
        let len = self.coder.len_bytes() as u64;
        let place = self.payload_start() + table_len - self.frame_start;
        PlaneBlocks::new(method, len, place, self.coder.block_bytes().into())
    }

    /// Releases the part of the tensor from which these bytes of the plane are
    /// made.
    fn release(&self, part: Range<usize>) {
        let source = self.coder.source(part);
        let start = self.tensor_start;
        let source = start + source.start..start + source.end;
        self.packer.data.map.release(source);
    }
}

/// Returns ranges of blocks to code at the same time: as many as the memory
/// allows, but no fewer than there are threads.
fn groups(packer: &FilePacker, coder: &PlaneCoder) -> impl Iterator<Item = Range<usize>> {
    let source_bytes = coder.source(coder.block(0)).len().max(1) as u64;
    let fit = usize::try_from(packer.max_batch_bytes() / source_bytes).unwrap_or(usize::MAX);
    let count = coder.block_count();
    let step = fit.max(packer.engine.threads());
    (0..count)
        .step_by(step)
        .map(move |start| start..count.min(start.saturating_add(step)))
}
