//! Loads whole models, or some of their tensors, into the memory of a device.
//!
//! Several threads read, each into a ring of buffers that the device copies from. Files may
//! be on servers; a request there fetches up to a buffer of adjacent tensors.
//!
//! For each thread, a load needs two buffers, at most one frame that is longer than a
//! buffer, and on the device the planes of at most four buffers of decoded bytes, or of one
//! longer tensor, and as many bytes of the base of tensors that are stored as an exclusive or.
//! The device bounds the number of threads of all loads ([`Device::queue`]).
//!
//! | tensors | are |
//! |---|---|
//! | of plain files | copied, long ones in parts and short ones together (`worker`) |
//! | whose frames fit into a buffer | compared with their checksums while they are in the processor's cache, planned, and decoded together (`batch`) |
//! | with a longer frame | read by several threads, and decoded alone (`long_frame`) |
//! | of deltas | loaded from the base, then replaced by the restored ones as above |
//! | outside of plans | decoded by the CPU |

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zstn::source::Source;
use zstn::{CancelToken, Dtype, Reader};

use crate::{Device, Error, Output, Result};

mod batch;
mod coverage;
mod divide;
mod long_frame;
mod worker;

use worker::Load;

pub use coverage::{Coverage, coverage};

/// The alignment of tensors in the output, in bytes.
const TENSOR_ALIGN: u64 = 256;
/// The smallest buffer in bytes.
const MIN_BUFFER_BYTES: usize = 4096;
/// The default number of threads on machines with as many cores or more, and for files on
/// servers, where a thread mostly waits for its request.
const DEFAULT_THREADS: usize = 8;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    threads: Option<usize>,
    buffer_bytes: usize,
    cancel_token: CancelToken,
}

impl Default for LoadOptions {
    /// Returns one thread per core, at most eight, with buffers of 16 MiB; eight threads
    /// if a file is on a server.
    fn default() -> Self {
        Self {
            threads: None,
            buffer_bytes: 16 << 20,
            cancel_token: CancelToken::new(),
        }
    }
}

impl LoadOptions {
    /// Sets the number of threads that read; at least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// Returns the number of threads that load tensors of `reader`.
    fn threads_for(&self, reader: &Reader) -> usize {
        self.threads.unwrap_or_else(|| {
            let cores = || thread::available_parallelism().map_or(1, usize::from);
            match reader.all_sources().any(Source::is_remote) {
                true => DEFAULT_THREADS,
                false => cores().min(DEFAULT_THREADS),
            }
        })
    }

    /// Sets the length in bytes of each buffer, of which every thread has two; at least
    /// 4 KiB.
    #[must_use]
    pub fn buffer_bytes(mut self, buffer_bytes: usize) -> Self {
        self.buffer_bytes = buffer_bytes.max(MIN_BUFFER_BYTES);
        self
    }

    /// Sets the token that ends the work with [`zstn::Error::Cancelled`].
    #[must_use]
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel_token = token.clone();
        self
    }
}

/// A loaded model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded<M> {
    /// The memory that contains all tensors.
    pub memory: M,
    /// The tensors, in the order of [`Reader::tensors`].
    pub tensors: Vec<LoadedTensor>,
    /// How the tensors were decoded.
    pub report: LoadReport,
}

/// A tensor in the memory of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedTensor {
    /// The name, unique within the model.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The bytes of the memory that contain the tensor, which begin at a multiple of 256.
    pub range: Range<u64>,
}

/// States how tensors were decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Number of tensors that the CPU decoded, or whose tensor in the base it decoded.
    pub by_cpu: usize,
}

/// A tensor to load, and the place that its bytes are written to.
#[derive(Debug, Clone, Copy)]
pub struct Target<'t, M> {
    /// The name of the tensor.
    pub name: &'t str,
    /// The memory that is written to.
    pub memory: &'t M,
    /// Offset of the first byte in the memory. Offsets at a multiple of 16 are decoded
    /// faster.
    pub at: u64,
}

/// Loads all tensors of a model into one block of memory. Stored bytes of ZSTN files are
/// compared with their checksums, as by [`Verify::Stored`](zstn::Verify); digests of
/// decoded bytes are compared for tensors of deltas and for tensors that the CPU decodes.
///
/// # Errors
/// The error with which [`Reader::read`] refuses a tensor; [`zstn::Error::Cancelled`];
/// the errors of the device.
pub fn load<D: Device>(
    device: &D,
    reader: &Reader,
    options: &LoadOptions,
) -> Result<Loaded<D::Memory>> {
    let mut end = 0;
    let mut tensors = Vec::new();
    for tensor in reader.tensors() {
        let range = range_after(end, tensor.len_bytes())?;
        end = range.end;
        tensors.push(LoadedTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            range,
        });
    }
    let memory = device.allocate(end)?;
    let targets = tensors.iter().map(|tensor| Target {
        name: &tensor.name,
        memory: &memory,
        at: tensor.range.start,
    });
    let targets: Vec<_> = targets.collect();
    let report = load_into(device, reader, &targets, options)?;
    Ok(Loaded {
        memory,
        tensors,
        report,
    })
}

/// Loads tensors of a model into memory of the caller. Places must not overlap. See
/// [`load`] for the checks.
///
/// # Errors
/// The errors of [`load`]; [`Error::Usage`] if memory is shorter than its tensor. After an
/// error, the content of all places is undefined, and the device no longer writes to them.
pub fn load_into<D: Device>(
    device: &D,
    reader: &Reader,
    targets: &[Target<'_, D::Memory>],
    options: &LoadOptions,
) -> Result<LoadReport> {
    let by_cpu = load_targets(device, reader, targets, options)?.len();
    for source in reader.all_sources() {
        source.check_unchanged()?;
    }
    Ok(LoadReport { by_cpu })
}

/// Loads tensors as [`load_into`] does. Returns the names of the tensors that the CPU decoded,
/// or whose tensor in the base it decoded.
fn load_targets<'t, D: Device>(
    device: &D,
    reader: &Reader,
    targets: &[Target<'t, D::Memory>],
    options: &LoadOptions,
) -> Result<BTreeSet<&'t str>> {
    let mut numbered = Vec::with_capacity(targets.len());
    for target in targets {
        numbered.push((reader.model().find(target.name)?, target));
    }
    let mut by_cpu = BTreeSet::new();
    if let Some(base) = reader.base() {
        // The records of a delta replace the base's tensors, which have the same lengths.
        let is_restored = |number: usize| {
            let tensor = reader.tensors().get(number);
            tensor.is_some_and(|tensor| tensor.base.is_some())
                && divide::frame(reader, number).is_some()
        };
        let of_base = numbered.iter().filter(|(number, _)| is_restored(*number));
        let of_base = of_base.map(|(_, target)| Target {
            name: target.name,
            memory: target.memory,
            at: target.at,
        });
        let of_base: Vec<_> = of_base.collect();
        if !of_base.is_empty() {
            by_cpu = load_targets(device, base, &of_base, options)?;
        }
    }
    // Tensors that are adjacent in a file are read together.
    numbered.sort_by_key(|&(number, _)| {
        let part = reader.tensors().get(number)?.parts.first()?;
        Some((part.file, part.stored.start))
    });
    let mut end = 0;
    let mut places = Vec::with_capacity(targets.len());
    for (number, target) in numbered {
        let planned = range_after(end, reader.find(target.name)?.len_bytes())?;
        end = planned.end;
        places.push(Place {
            number,
            name: target.name,
            planned,
            memory: target.memory,
            at: target.at,
            is_by_cpu: AtomicBool::new(false),
        });
    }
    Load::new(device, reader, options, &places).run()?;
    let is_by_cpu = |place: &&Place<'t, _>| place.is_by_cpu.load(Ordering::Relaxed);
    by_cpu.extend(places.iter().filter(is_by_cpu).map(|place| place.name));
    Ok(by_cpu)
}

/// Returns the next `len_bytes` bytes that begin at a multiple of [`TENSOR_ALIGN`].
fn range_after(end: u64, len_bytes: u64) -> Result<Range<u64>> {
    let start = end.checked_next_multiple_of(TENSOR_ALIGN);
    let range = start.and_then(|start| Some(start..start.checked_add(len_bytes)?));
    range.ok_or_else(|| Error::Usage("the tensors have over 2^64 bytes".into()))
}

/// A tensor to load.
struct Place<'m, M> {
    /// The number of the tensor in [`Reader::tensors`].
    number: usize,
    name: &'m str,
    /// Its bytes in the output of plans.
    planned: Range<u64>,
    memory: &'m M,
    /// Offset of the first byte in the memory.
    at: u64,
    /// Whether the CPU has decoded it.
    is_by_cpu: AtomicBool,
}

impl<'m, M> Place<'m, M> {
    fn len_bytes(&self) -> u64 {
        self.planned.end - self.planned.start
    }

    fn output(&self) -> Output<'m, M> {
        Output {
            planned: self.planned.clone(),
            memory: self.memory,
            at: self.at,
        }
    }
}
