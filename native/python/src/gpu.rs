//! Reading tensors into the memory of NVIDIA GPUs.

// Addresses of another library's memory have no type that guarantees anything.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use zstn_gpu::Error;
use zstn_gpu::cuda::Gpu;
use zstn_gpu::load::{LoadOptions, Target, load_into};

use crate::progress::Watch;

/// The GPUs that this process has opened, or the reasons why it cannot use them.
struct Opened {
    process: u32,
    gpus: BTreeMap<u16, Result<Gpu, String>>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

/// Returns the GPU with this number, or the reason why it cannot be used.
fn gpu(number: u16) -> Result<Gpu, String> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    let opened = opened.get_or_insert_with(|| Opened {
        process,
        gpus: BTreeMap::new(),
    });
    if opened.process != process {
        return Err("this process was forked from one that uses the GPU".into());
    }
    let open = || Gpu::open(number).map_err(|error| error.to_string());
    opened.gpus.entry(number).or_insert_with(open).clone()
}

/// A tensor's place in the memory of a GPU: its name, and the address of its first byte.
pub type Place = (String, u64);

/// Reads tensors into the memory of GPU `number`, after all present work of `stream`.
/// Every address must be of as many bytes as the tensor has, and nothing else may use them
/// during the call. Returns the reason if the GPU cannot be used.
pub fn read_into(
    reader: &zstn::Reader,
    number: u16,
    stream: u64,
    places: &[Place],
    watch: &Watch,
) -> zstn::Result<Option<String>> {
    let gpu = match gpu(number) {
        Ok(gpu) => gpu,
        Err(reason) => return Ok(Some(reason)),
    };
    let memories = places.iter().map(|(name, address)| {
        let len_bytes = reader.find(name)?.len_bytes();
        // SAFETY: `zstn/_gpu.py` gives the addresses of tensors that it has just created
        // on this GPU, with this number of bytes each, and keeps them until the call has
        // returned. The call waits for all of its work, and no exception ends it sooner,
        // because its watch borrows memory.
        Ok(unsafe { gpu.memory_at(*address, len_bytes) })
    });
    let memories = memories.collect::<zstn::Result<Vec<_>>>()?;
    let targets = places
        .iter()
        .zip(&memories)
        .map(|((name, _), memory)| Target {
            name,
            memory,
            at: 0,
        });
    let targets: Vec<_> = targets.collect();
    let options = LoadOptions::default().cancel_token(watch.token());
    // SAFETY: `zstn/_gpu.py` gives a stream of torch, which never destroys its streams.
    let loaded = unsafe { gpu.after(stream) }
        .and_then(|device| load_into(&device, reader, &targets, &options));
    match loaded {
        Ok(_) => Ok(None),
        Err(Error::File(error)) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Frees the pinned memory that is kept for later reads.
#[pyfunction]
pub fn release_gpu_buffers(py: Python<'_>) {
    py.detach(|| {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let gpus = opened
            .iter()
            .filter(|opened| opened.process == process::id())
            .flat_map(|opened| opened.gpus.values().flatten());
        gpus.for_each(Gpu::release_buffers);
    });
}
