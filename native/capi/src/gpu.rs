//! Reading tensors into the memory of GPUs.

use std::ffi::c_void;

use zstn_gpu::Error;
use zstn_gpu::cuda::Gpu;
use zstn_gpu::load::{LoadOptions, Target, load_into};

use crate::pointer;
use crate::reader::zstn_reader;
use crate::status::{self, Failure, ZSTN_ERROR_GPU, zstn_error, zstn_status};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::File(error) => error.into(),
            Error::Usage(message) => Self::usage(message),
            error => Self {
                status: ZSTN_ERROR_GPU,
                is_retryable: false,
                message: error.to_string(),
            },
        }
    }
}

/// A tensor to read, and the memory of a GPU for it.
#[repr(C)]
pub struct zstn_gpu_target {
    /// Number of the tensor.
    pub tensor: usize,
    /// Address of the memory, a `CUdeviceptr`. At a multiple of 16, tensors are decoded
    /// faster.
    pub address: u64,
    /// Capacity of the memory in bytes.
    pub capacity: u64,
}

/// Reads several tensors into the memory of an NVIDIA GPU, which decodes most of them
/// itself. `gpu` is its number, which counts from 0, and is used through its primary
/// context, as by CUDA's runtime. The work begins after all present work of `stream`, a
/// `CUstream` of that context, or NULL for the default stream; it is done when the call
/// returns. The memory must not overlap, and nothing else may use it during the call. If
/// there is no driver or no such GPU, or if it fails, the status is `ZSTN_ERROR_GPU`;
/// `zstn_read_many` decodes on the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read_to_gpu(
    reader: *const zstn_reader,
    gpu: u16,
    stream: *mut c_void,
    targets: *const zstn_gpu_target,
    target_count: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: the header requires that `targets` is NULL or a list of that length.
        let targets = unsafe { pointer::list(targets, target_count, "the list of targets") }?;
        let names = targets.iter().map(|target| {
            let tensor = reader.model().tensor(target.tensor)?;
            let (len_bytes, capacity) = (tensor.len_bytes(), target.capacity);
            match len_bytes <= capacity {
                true if target.address == 0 && len_bytes > 0 => {
                    Err(Failure::usage("the address of a tensor's memory is 0"))
                }
                true => Ok(&*tensor.name),
                false => Err(Failure::usage(format!(
                    "the result has {len_bytes} bytes, the memory for it {capacity}"
                ))),
            }
        });
        let names = names.collect::<Result<Vec<_>, Failure>>()?;
        let gpu = Gpu::of_process(gpu)?;
        let memories = targets.iter().map(|target| {
            // SAFETY: the header requires memory of the GPU with this capacity that
            // nothing else uses during the call, which waits for its own work.
            unsafe { gpu.memory_at(target.address, target.capacity) }
        });
        let memories = memories.collect::<Result<Vec<_>, Error>>()?;
        let targets = names.into_iter().zip(&memories);
        let targets = targets.map(|(name, memory)| Target {
            name,
            memory,
            at: 0,
        });
        // SAFETY: the header requires a stream of the GPU's primary context, or NULL.
        let device = unsafe { gpu.after(stream.addr() as u64) }?;
        let targets: Vec<_> = targets.collect();
        load_into(&device, reader, &targets, &LoadOptions::default())?;
        Ok(())
    })
}
