//! Reading tensors into the memory of NVIDIA GPUs.

// Addresses of another library's memory have no type that guarantees anything.
#![allow(unsafe_code)]

use pyo3::prelude::*;
use zstn_gpu::Error;
use zstn_gpu::cuda::Gpu;
use zstn_gpu::load::{LoadOptions, Target, load_into};

use crate::progress::Watch;

/// A tensor's place in the memory of a GPU: its name, and the address of its first byte.
pub type Place = (String, u64);

/// Reads tensors into the memory of GPU `number`, after all present work of `stream`.
/// Every address must be of as many bytes as the tensor has, and nothing else may use them
/// during the call. Returns the number of tensors that the CPU has decoded, or the reason
/// if the GPU cannot be used.
pub fn read_into(
    reader: &zstn::Reader,
    number: u16,
    stream: u64,
    places: &[Place],
    watch: &Watch,
) -> zstn::Result<Result<usize, String>> {
    match read_by(reader, number, stream, places, watch) {
        Ok(by_cpu) => Ok(Ok(by_cpu)),
        Err(Error::File(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

fn read_by(
    reader: &zstn::Reader,
    number: u16,
    stream: u64,
    places: &[Place],
    watch: &Watch,
) -> Result<usize, Error> {
    let gpu = Gpu::of_process(number)?;
    let memories = places.iter().map(|(name, address)| {
        let len_bytes = reader.find(name)?.len_bytes();
        // SAFETY: `zstn/_gpu.py` gives the addresses of tensors that it has just created
        // on this GPU, with this number of bytes each, and keeps them until the call has
        // returned. The call waits for all of its work, and no exception ends it sooner,
        // because its watch borrows memory.
        unsafe { gpu.memory_at(*address, len_bytes) }
    });
    let memories = memories.collect::<Result<Vec<_>, Error>>()?;
    let targets = places.iter().zip(&memories);
    let targets = targets.map(|((name, _), memory)| Target {
        name,
        memory,
        at: 0,
    });
    let targets: Vec<_> = targets.collect();
    let options = LoadOptions::default().cancel_token(watch.token());
    // SAFETY: `zstn/_gpu.py` gives a stream of torch, which never destroys its streams.
    let device = unsafe { gpu.after(stream) }?;
    Ok(load_into(&device, reader, &targets, &options)?.by_cpu)
}

/// Frees the memory that is kept for later reads.
#[pyfunction]
pub fn release_gpu_buffers(py: Python<'_>) {
    py.detach(Gpu::release_buffers_of_process);
}
