//! A safetensors file to a ZSTN container, in bounded memory.
//!
//! Tensors are coded in batches that fit the memory allowed, a batch on all
//! threads while the one before is written; a tensor too large for that goes
//! plane by plane (`large`). The bytes are the same either way, and the
//! same for any number of threads.

use std::path::Path;

use zstn_core::catalog::{self, Kind};
use zstn_core::container::safetensors;
use zstn_core::container::zstn;
use zstn_core::frame::select::Effort;

use crate::source::{Map, Place, Source};
use crate::{Engine, Error, Output, Progress, Result};

pub(crate) mod batch;
mod file_packer;
mod large;

pub(crate) use file_packer::FilePacker;

/// Least memory the packer can be held to, in bytes: a few blocks per thread.
pub const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// How to pack.
#[derive(Clone, Copy)]
pub struct PackOptions<'a> {
    /// Time against space.
    pub effort: Effort,
    /// Memory to stay within, roughly, in bytes; at least
    /// [`LEAST_MEMORY_BYTES`]. Less is taken where less keeps all threads busy.
    /// It never changes the output.
    pub memory_bytes: u64,
    /// Whether a container gets an integrity section
    /// (docs/formats/zstn-integrity.md). Deltas always have their trailer.
    pub integrity: bool,
    /// Whether a file that ends before its tensors do is packed, whole, as one
    /// frame. Almost always such a file is a download or a copy that failed,
    /// so that by default it is refused.
    pub allow_truncated: bool,
    /// Told the original bytes dealt with.
    pub progress: &'a dyn Progress,
}

impl Default for PackOptions<'_> {
    fn default() -> Self {
        Self {
            effort: Effort::default(),
            memory_bytes: 1 << 30,
            integrity: true,
            allow_truncated: false,
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
    engine: &Engine,
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &PackOptions,
) -> Result<PackReport> {
    let map = Place::from(input.as_ref().as_os_str()).whole(&|_, _| ())?;
    let output = Output::create(output.as_ref())?;
    pack_map(engine, &map, output, options)
}

/// Packs a mapped file.
///
/// # Errors
/// An output that is the input; a file that is not safetensors, or was cut
/// off; [`Error::Changed`] if somebody wrote to the input meanwhile; and I/O
/// errors. Nothing of the output is left then.
pub fn pack_map(
    engine: &Engine,
    input: &Map,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackReport> {
    options.check()?;
    output.check_inputs(&[input])?;
    let refuse = Error::place(input.name());
    if input.starts_with(&zstn::MAGIC) {
        return Err(Error::Usage(format!("{} is packed already", input.name())));
    }
    let head = &input[..input.len().min(16)];
    let kind = catalog::recognise(head, input.len_bytes()).map_err(&refuse)?;
    if kind == Kind::Delta {
        return Err(Error::Usage(format!(
            "{} is packed already, as a difference from another checkpoint",
            input.name()
        )));
    }
    if kind != Kind::Safetensors {
        return Err(Error::Usage(format!(
            "{} is no safetensors file; `zstn convert` packs files of other kinds",
            input.name()
        )));
    }
    let header_len = safetensors::header_len_bytes(input, input.len_bytes()).map_err(&refuse)?;
    let data_start = zstn_core::bytes::index(safetensors::PREFIX_BYTES + header_len);
    let report = FilePacker::new(engine, input, data_start, options).pack(&mut output);
    // Whatever else went wrong may come of the change.
    input.check_unchanged()?;
    let report = report?;
    output.finish()?;
    Ok(report)
}
