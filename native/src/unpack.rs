//! Restores the file that a ZSTN container was packed from, byte for byte.

use std::ops::Range;

use crate::container::Container;
use crate::report::UnpackedFile;
use crate::source::{Local, Source};
use crate::{Engine, Output, Progress, Result};

/// Restores the file that `input` was packed from. The output gets its name only after
/// everything that `verify` compares has been compared: header, frames, tensors,
/// statistics, block tables and the SHA-256 of the whole file.
pub fn unpack_file(
    engine: &Engine,
    input: &Local,
    output: Output,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<UnpackedFile> {
    output.check_inputs(&[input])?;
    let restored = restore(engine, input, &output, memory_bytes, progress);
    // If the input has changed, the change is reported: it may have caused any other
    // error.
    finish(
        input,
        output,
        input.check_unchanged().and(restored),
        progress,
    )
}

/// Publishes the output if `restored` is the number of restored bytes; otherwise
/// abandons the output and returns the error.
pub(crate) fn finish(
    input: &Local,
    mut output: Output,
    restored: Result<u64>,
    progress: &dyn Progress,
) -> Result<UnpackedFile> {
    let original_bytes = match restored {
        Ok(len_bytes) => len_bytes,
        Err(error) => return Err(output.give_up(error)),
    };
    output.expect(original_bytes);
    Ok(UnpackedFile {
        input: input.name().into(),
        output: output.path(),
        packed_bytes: input.len_bytes(),
        original_bytes,
        upload: output.complete(progress)?,
    })
}

/// Writes the original file, compares it with the stored digests and returns its
/// length. The tensors that are decoded at the same time have up to `memory_bytes` in
/// total.
pub(crate) fn restore(
    engine: &Engine,
    input: &Local,
    output: &Output,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<u64> {
    let container = Container::parse(engine, input, memory_bytes)?;
    let data_start = begin(output, &container.header()?, container.original_len_bytes())?;
    let write = |span: Range<u64>, bytes: &[u8]| output.write_at(bytes, data_start + span.start);
    container.decode(engine, memory_bytes, progress, write)?;
    Ok(container.original_len_bytes())
}

/// Begins a safetensors file of `len_bytes` bytes with its header; returns the offset
/// at which its data start.
pub(crate) fn begin(output: &Output, header: &[u8], len_bytes: u64) -> Result<u64> {
    output.reserve(len_bytes)?;
    output.write_at(&(header.len() as u64).to_le_bytes(), 0)?;
    output.write_at(header, 8)?;
    Ok(8 + header.len() as u64)
}
