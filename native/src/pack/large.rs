//! A tensor that does not fit into memory with its coded form: its planes are
//! coded and written a few blocks at a time.

use std::ops::Range;

use zstn_core::engine::Engine;
use zstn_core::entropy::blocks;
use zstn_core::frame::plane::{self, Method};
use zstn_core::frame::z4ai::{self, PlaneCoder, Recipe};

use super::Job;
use crate::{Output, Result};

/// Writes the frame of the tensor at `place` of the input, which begins at
/// `position` of the output; returns its length. The bytes are those of
/// [`z4ai::encode`].
pub fn write(
    job: &Job,
    place: Range<usize>,
    recipe: &Recipe,
    position: u64,
    output: &mut Output,
) -> Result<u64> {
    let (planes, tail) = PlaneCoder::all(&job.input[place.clone()], recipe);
    let head = z4ai::head(recipe.transform, tail);
    output.write(&head)?;
    let mut end = position + head.len() as u64;
    let share = place.len() as u64 / planes.len().max(1) as u64;
    for coder in &planes {
        end = write_plane(job, coder, place.start, end, output)?;
        job.options.progress.advance(share);
    }
    // What the division has left over.
    let rest = place.len() as u64 - share * planes.len() as u64;
    job.options.progress.advance(rest);
    Ok(end - position)
}

/// Writes one plane record at `start`; returns where it ends.
fn write_plane(
    job: &Job,
    coder: &PlaneCoder,
    tensor_start: usize,
    start: u64,
    output: &mut Output,
) -> Result<u64> {
    if !coder.is_blockwise() {
        return write_whole(job, coder, start, output);
    }
    let len = coder.len_bytes() as u64;
    let payload_start = start + plane::HEAD_BYTES as u64;
    let table_len = match coder.block_method() {
        Method::Blocks => 8 + 4 * coder.block_count() as u64,
        _ => 0,
    };
    output.seek(payload_start + table_len)?;
    let mut stored_lens = Vec::with_capacity(coder.block_count());
    for group in groups(job, coder) {
        let coded = job.engine.map(group.clone().collect(), |block| {
            coder.encode_block(job.engine, block)
        });
        for block in group {
            let source = coder.block_source(block);
            job.input
                .release(tensor_start + source.start..tensor_start + source.end);
        }
        for block in coded {
            output.write(&block)?;
            stored_lens.push(u32::try_from(block.len()).expect("a block is a few MiB"));
        }
    }
    let payload_len = table_len + stored_lens.iter().map(|&l| u64::from(l)).sum::<u64>();
    if payload_len >= len && coder.block_method() != Method::Store {
        return store(job, coder, tensor_start, start, output);
    }
    output.write_at(&plane::head(coder.block_method(), len, payload_len), start)?;
    if table_len > 0 {
        let table = blocks::table(coder.block_bytes(), &stored_lens);
        output.write_at(&table, payload_start)?;
    }
    Ok(payload_start + payload_len)
}

/// Writes a plane that is coded as a whole.
fn write_whole(job: &Job, coder: &PlaneCoder, start: u64, output: &mut Output) -> Result<u64> {
    let (method, payload) = coder.encode(job.engine);
    let (len, payload_len) = (coder.len_bytes() as u64, payload.len() as u64);
    output.seek(start)?;
    output.write(&plane::head(method, len, payload_len))?;
    output.write(&payload)?;
    Ok(start + plane::HEAD_BYTES as u64 + payload_len)
}

/// Writes the plane as it is: coding has gained nothing.
fn store(
    job: &Job,
    coder: &PlaneCoder,
    tensor_start: usize,
    start: u64,
    output: &mut Output,
) -> Result<u64> {
    let len = coder.len_bytes();
    output.set_len(start)?;
    output.seek(start)?;
    output.write(&plane::head(Method::Store, len as u64, len as u64))?;
    let piece = coder.block_bytes() as usize;
    for block in 0..coder.block_count() {
        let mut raw = vec![0; piece.min(len - block * piece)];
        coder.extract(block * piece, &mut raw);
        output.write(&raw)?;
        let source = coder.block_source(block);
        job.input
            .release(tensor_start + source.start..tensor_start + source.end);
    }
    Ok(start + (plane::HEAD_BYTES + len) as u64)
}

/// Blocks to code at the same time: as many as the memory allows, but no
/// fewer than there are threads.
fn groups(job: &Job, coder: &PlaneCoder) -> impl Iterator<Item = Range<usize>> {
    let source_bytes = coder.block_source(0).len().max(1) as u64;
    let fit = usize::try_from(job.batch_bytes() / source_bytes).unwrap_or(usize::MAX);
    let count = coder.block_count();
    let step = fit.max(job.engine.threads());
    (0..count)
        .step_by(step)
        .map(move |start| start..count.min(start.saturating_add(step)))
}
