//! A ZSTN container back to the file it was packed from, byte for byte.

use std::path::Path;

use crate::container::Container;
use crate::source::{Map, Place, Source};
use crate::{Engine, Output, Progress, Result};

/// What unpacking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackReport {
    /// Length of the container.
    pub packed_bytes: u64,
    /// Length of the restored file.
    pub original_bytes: u64,
}

/// Restores the file that `input`, a path or an http(s) address, was packed
/// from, as `output`.
pub fn unpack(
    engine: &Engine,
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    progress: &dyn Progress,
) -> Result<UnpackReport> {
    let map = Place::from(input.as_ref().as_os_str()).whole(&|_, _| ())?;
    unpack_map(engine, &map, Output::create(output.as_ref())?, progress)
}

/// Restores from a mapped file. With an integrity section its header, every
/// frame and every tensor are compared with it before the output gets its
/// name; the SHA-256 of the whole file, which no second thread can help with,
/// only where it is all there is. [`verify`](crate::verify) takes it always.
pub fn unpack_map(
    engine: &Engine,
    input: &Map,
    output: Output,
    progress: &dyn Progress,
) -> Result<UnpackReport> {
    output.check_inputs(&[input])?;
    let restored = restore(engine, input, &output, u64::MAX, progress);
    // Whatever else went wrong may come of the change.
    input.check_unchanged()?;
    let original_bytes = restored?;
    output.finish()?;
    Ok(UnpackReport {
        packed_bytes: input.len_bytes(),
        original_bytes,
    })
}

/// Writes the original file and compares it; returns its length. Tensors of up
/// to `memory_bytes` together are decoded at a time.
pub(crate) fn restore(
    engine: &Engine,
    input: &Map,
    output: &Output,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<u64> {
    let container = Container::parse(engine, input)?;
    let data_start = begin(output, container.header(), container.original_len_bytes())?;
    container.release_header();
    container.decode(engine, memory_bytes, progress, |span, bytes| {
        output.write_at(bytes, data_start + span.start)
    })?;
    if !container.has_digests() {
        let written = output.map()?;
        container.check_file(written.pieces(0..written.len()))?;
    }
    Ok(container.original_len_bytes())
}

/// Begins a safetensors file of `len_bytes` with its header; returns where its
/// data start.
pub(crate) fn begin(output: &Output, header: &[u8], len_bytes: u64) -> Result<u64> {
    output.set_len(len_bytes)?;
    output.write_at(&(header.len() as u64).to_le_bytes(), 0)?;
    output.write_at(header, 8)?;
    Ok(8 + header.len() as u64)
}
