//! NVIDIA GPUs, by the driver's interface. The driver is loaded when a GPU is opened, so
//! programs build and start without it.

#![allow(unsafe_code)] // the driver's interface is unsafe

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent_flags, CUfunction_attribute};
use zstn::Reader;

use crate::load::{LoadOptions, LoadReport, Target, load_into};
use crate::{Device, Error, KERNELS, Result};

mod context;
mod memory;
mod of_process;
mod queue;

use context::{Context, Event, Kernel, Module, cannot};
use queue::Parts;

pub use memory::Memory;
pub use queue::GpuQueue;

/// The most shared memory that a block has on every GPU with compute capability 8.0 or
/// later.
const MAX_SHARED_BYTES: i32 = 99 << 10;
/// The default of [`Gpu::set_buffer_limit_bytes`].
const BUFFER_LIMIT_BYTES: u64 = 512 << 20;
/// The default of [`Gpu::set_queue_limit_bytes`].
const QUEUE_LIMIT_BYTES: u64 = 512 << 20;

/// A GPU, with the kernels. A clone is another handle to it.
///
/// Queues that have been dropped leave their buffers to the next ones, because pinning
/// memory takes about 0.4 s per GiB.
#[derive(Clone)]
pub struct Gpu {
    shared: Arc<Shared>,
}

struct Shared {
    pinned: Mutex<PinnedMemory>,
    /// Notified when a queue is dropped.
    queue_dropped: Condvar,
    kernels: Kernels,
    name: String,
    context: Arc<Context>,
}

struct Kernels {
    expand_tables: Kernel,
    decode_segments: Kernel,
    copy_segments: Kernel,
    decode_rans_streams: Kernel,
    join_bfloat16_tiles: Kernel,
    join_tiles: Kernel,
    join_lattice_tiles: Kernel,
    count_sparse_tiles: Kernel,
    add_up_sparse_tensors: Kernel,
    join_sparse_tiles: Kernel,
    save_bases: Kernel,
    hash_tiles: Kernel,
    compare_digests: Kernel,
    decode_difference_blocks: Kernel,
    apply_xors: Kernel,
    _module: Module,
}

impl Kernels {
    /// Loads the kernels. The context must be the current one.
    fn load(context: &Arc<Context>) -> Result<Self> {
        let module = Module::new(context, KERNELS)?;
        let kernels = Self {
            expand_tables: module.kernel("expand_tables")?,
            decode_segments: module.kernel("decode_segments")?,
            copy_segments: module.kernel("copy_segments")?,
            decode_rans_streams: module.kernel("decode_rans_streams")?,
            join_bfloat16_tiles: module.kernel("join_bfloat16_tiles")?,
            join_tiles: module.kernel("join_tiles")?,
            join_lattice_tiles: module.kernel("join_lattice_tiles")?,
            count_sparse_tiles: module.kernel("count_sparse_tiles")?,
            add_up_sparse_tensors: module.kernel("add_up_sparse_tensors")?,
            join_sparse_tiles: module.kernel("join_sparse_tiles")?,
            save_bases: module.kernel("save_bases")?,
            hash_tiles: module.kernel("hash_tiles")?,
            compare_digests: module.kernel("compare_digests")?,
            decode_difference_blocks: module.kernel("decode_difference_blocks")?,
            apply_xors: module.kernel("apply_xors")?,
            _module: module,
        };
        for kernel in [
            kernels.decode_segments,
            kernels.join_bfloat16_tiles,
            kernels.decode_difference_blocks,
        ] {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the kernel is of the module, which exists.
            unsafe {
                result::function::set_function_attribute(kernel.0, attribute, MAX_SHARED_BYTES)
            }
            .map_err(cannot("reserve shared memory"))?;
        }
        Ok(kernels)
    }
}

/// The pinned memory of all queues.
struct PinnedMemory {
    /// The parts of queues that are not in use.
    idle: Vec<Parts>,
    /// The most bytes of idle parts.
    idle_limit_bytes: u64,
    /// The bytes of queues in use, and the most that they have together.
    active_bytes: u64,
    active_limit_bytes: u64,
}

/// The right of a queue to have pinned memory. It ends when this value is dropped.
struct Permit {
    shared: Arc<Shared>,
    len_bytes: u64,
}

impl Permit {
    /// Waits up to `patience` until the queues in use leave as much memory.
    fn new(shared: &Arc<Shared>, len_bytes: u64, patience: Duration) -> Option<Self> {
        let is_full = |pinned: &mut PinnedMemory| {
            let total = pinned.active_bytes.saturating_add(len_bytes);
            pinned.active_bytes > 0 && total > pinned.active_limit_bytes
        };
        let waited = shared
            .queue_dropped
            .wait_timeout_while(shared.pinned(), patience, is_full);
        let (mut pinned, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if is_full(&mut pinned) {
            return None;
        }
        pinned.active_bytes = pinned.active_bytes.saturating_add(len_bytes);
        Some(Self {
            shared: shared.clone(),
            len_bytes,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut pinned = self.shared.pinned();
        pinned.active_bytes = pinned.active_bytes.saturating_sub(self.len_bytes);
        drop(pinned);
        self.shared.queue_dropped.notify_all();
    }
}

impl Shared {
    fn pinned(&self) -> MutexGuard<'_, PinnedMemory> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the parts of an idle queue with buffers of this length.
    fn take_idle(&self, buffer_bytes: usize) -> Option<Parts> {
        let mut pinned = self.pinned();
        let is_fitting = |parts: &Parts| parts.buffer_bytes() == buffer_bytes;
        let number = pinned.idle.iter().position(is_fitting)?;
        Some(pinned.idle.swap_remove(number))
    }

    /// Keeps the parts of a queue whose work is done, or frees them if they exceed the
    /// limit. Parts with buffers of another length are freed first.
    fn put_idle(&self, parts: Parts) {
        let buffer_bytes = parts.buffer_bytes();
        let mut freed = vec![];
        let mut pinned = self.pinned();
        let total =
            |pinned: &PinnedMemory| pinned.idle.iter().map(Parts::pinned_bytes).sum::<u64>();
        while total(&pinned) + parts.pinned_bytes() > pinned.idle_limit_bytes {
            let others = |other: &Parts| other.buffer_bytes() != buffer_bytes;
            match pinned.idle.iter().position(others) {
                Some(number) => freed.push(pinned.idle.swap_remove(number)),
                None => break,
            }
        }
        match total(&pinned) + parts.pinned_bytes() <= pinned.idle_limit_bytes {
            true => pinned.idle.push(parts),
            false => freed.push(parts),
        }
        // The driver may take long to free them.
        drop(pinned);
    }
}

impl Gpu {
    /// Opens the GPU with this number, which counts from 0, and loads the kernels. The
    /// GPU is used through its primary context, as by CUDA's runtime. The context of the
    /// calling thread does not change, here or in any other operation.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without a driver; [`Error::OldGpu`] for a GPU with a compute
    /// capability below 8.0; [`Error::Driver`] if there is no such GPU.
    pub fn open(number: u16) -> Result<Self> {
        if !context::is_driver_present() {
            let library = if cfg!(windows) {
                "nvcuda.dll"
            } else {
                "libcuda.so.1"
            };
            return Err(Error::NoDriver { library });
        }
        context::check_driver()?;
        let context = Context::open(number)?;
        let (name, capability) = (context.name()?, context.capability()?);
        if capability.0 < 8 {
            return Err(Error::OldGpu { name, capability });
        }
        let _entered = context.enter()?;
        Ok(Self {
            shared: Arc::new(Shared {
                pinned: Mutex::new(PinnedMemory {
                    idle: Vec::new(),
                    idle_limit_bytes: BUFFER_LIMIT_BYTES,
                    active_bytes: 0,
                    active_limit_bytes: QUEUE_LIMIT_BYTES,
                }),
                queue_dropped: Condvar::new(),
                kernels: Kernels::load(&context)?,
                name,
                context,
            }),
        })
    }

    /// Returns the name of the GPU.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Sets how many bytes of pinned memory are kept for later loads; 512 MiB by default.
    /// No memory of the GPU is kept.
    pub fn set_buffer_limit_bytes(&self, limit_bytes: u64) {
        self.shared.pinned().idle_limit_bytes = limit_bytes;
    }

    /// Sets how many bytes of pinned memory all queues in use have together; 512 MiB by
    /// default, which are the buffers of 16 threads. Loads at the same time then have fewer
    /// threads, or wait until others have ended. One queue always gets its buffers.
    pub fn set_queue_limit_bytes(&self, limit_bytes: u64) {
        self.shared.pinned().active_limit_bytes = limit_bytes;
        self.shared.queue_dropped.notify_all();
    }

    /// Frees all buffers that are not in use.
    pub fn release_buffers(&self) {
        // The lock is released before the driver frees them.
        let parts = std::mem::take(&mut self.shared.pinned().idle);
        drop(parts);
    }

    /// Returns a handle to memory of the caller, for loading into it.
    ///
    /// # Safety
    /// `address` must be the address of `len_bytes` bytes in the memory of this GPU, which
    /// must exist until all handles have been dropped and all calls that write to them
    /// have returned. Meanwhile nothing else may use these bytes.
    ///
    /// # Errors
    /// [`Error::Usage`] for the address 0, unless there are no bytes.
    pub unsafe fn memory_at(&self, address: u64, len_bytes: u64) -> Result<Memory> {
        if address == 0 && len_bytes > 0 {
            let detail = format!("the address of {len_bytes} bytes of the GPU is 0");
            return Err(Error::Usage(detail));
        }
        // SAFETY: the caller guarantees the same.
        Ok(unsafe { Memory::of_caller(&self.shared.context, address, len_bytes) })
    }

    /// Returns a device whose queues begin their work after all present work of `stream`,
    /// a `CUstream` of the caller. 0 is the default stream.
    ///
    /// A load waits for its own work, so the caller's later work needs no event.
    ///
    /// # Errors
    /// [`Error::Driver`] if earlier work of the stream has failed.
    ///
    /// # Safety
    /// The stream must exist, and be one of this GPU's primary context.
    pub unsafe fn after(&self, stream: u64) -> Result<GpuAfter> {
        let context = &self.shared.context;
        let _entered = context.enter()?;
        let event = Event::new(context, CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        let no_stream = |_| Error::Usage(format!("there is no stream {stream:#x}"));
        let stream = usize::try_from(stream).map_err(no_stream)?;
        // SAFETY: the caller guarantees that the stream exists. The number is the handle,
        // a pointer that only the driver follows.
        unsafe { event.record_in(std::ptr::with_exposed_provenance_mut(stream))? };
        Ok(GpuAfter {
            gpu: self.clone(),
            event,
        })
    }

    /// Reads a tensor into memory of the GPU.
    ///
    /// # Errors
    /// The errors of [`load_into`].
    pub fn read_into(
        &self,
        reader: &Reader,
        name: &str,
        memory: &Memory,
        options: &LoadOptions,
    ) -> Result<LoadReport> {
        let at = 0;
        load_into(self, reader, &[Target { name, memory, at }], options)
    }
}

impl Device for Gpu {
    type Memory = Memory;
    type Queue = GpuQueue;

    fn allocate(&self, len_bytes: u64) -> Result<Memory> {
        let _entered = self.shared.context.enter()?;
        Memory::new(&self.shared.context, len_bytes)
    }

    fn queue(&self, buffer_bytes: usize, patience: Duration) -> Result<Option<GpuQueue>> {
        GpuQueue::new(&self.shared, buffer_bytes, patience)
    }
}

/// A GPU whose queues begin after work of the caller. See [`Gpu::after`].
pub struct GpuAfter {
    gpu: Gpu,
    event: Event,
}

impl Device for GpuAfter {
    type Memory = Memory;
    type Queue = GpuQueue;

    fn allocate(&self, len_bytes: u64) -> Result<Memory> {
        self.gpu.allocate(len_bytes)
    }

    fn queue(&self, buffer_bytes: usize, patience: Duration) -> Result<Option<GpuQueue>> {
        let queue = self.gpu.queue(buffer_bytes, patience)?;
        if let Some(queue) = &queue {
            queue.wait_for(&self.event)?;
        }
        Ok(queue)
    }
}
