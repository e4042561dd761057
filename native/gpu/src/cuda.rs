//! NVIDIA GPUs, by the driver's interface. The driver is loaded when a GPU is opened, so
//! programs build and start without it.

#![allow(unsafe_code)] // the driver's interface is unsafe

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction_attribute};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr as _, DeviceRepr, DriverError,
    HostSlice as _, LaunchConfig, PinnedHostSlice, PushKernelArg as _, result,
};
use cudarc::nvrtc::Ptx;
use zerocopy::IntoBytes as _;
use zstn_core::frame::plan::{DevicePlan, Space};

use crate::{Damage, Device, Error, Jobs, KERNELS, Queue, Result, host_place, stream_shared_bytes};

/// The length of the kernels' `DecodeTable`.
const DECODE_TABLE_BYTES: u64 = 8448;
/// The most shared memory that a block has on every GPU with compute capability 8.0 or
/// later.
const MAX_SHARED_BYTES: i32 = 99 << 10;
/// The alignment of lists in device memory.
const LIST_ALIGN: usize = 16;

/// Numbers of threads of a block.
const TABLE_THREADS: u32 = 128;
const STREAM_THREADS: u32 = 512;
const RANS_THREADS: u32 = 32;
const JOIN_THREADS: u32 = 256;

/// A GPU, with the kernels.
pub struct Gpu {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<CudaContext>,
    name: String,
    expand_tables: CudaFunction,
    decode_segments: CudaFunction,
    decode_rans_streams: CudaFunction,
    join_bfloat16_tiles: CudaFunction,
    join_tiles: CudaFunction,
}

/// Returns a function that converts an error of the driver.
fn cannot(action: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver {
        action,
        detail: error.to_string(),
    }
}

impl Gpu {
    /// Opens the GPU with this number, which counts from 0, and loads the kernels.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without a driver; [`Error::OldGpu`] for a GPU with a compute
    /// capability below 8.0; [`Error::Driver`] if there is no such GPU.
    pub fn open(number: u16) -> Result<Self> {
        // SAFETY: loading a library runs its initialisers. The library is the driver,
        // which the system's administrator installed for this purpose.
        if !unsafe { sys::is_culib_present() } {
            let library = if cfg!(windows) {
                "nvcuda.dll"
            } else {
                "libcuda.so.1"
            };
            return Err(Error::NoDriver { library });
        }
        let context = CudaContext::new(number.into()).map_err(cannot("open the GPU"))?;
        let name = context.name().map_err(cannot("read the name of the GPU"))?;
        let capability = context.compute_capability();
        let capability = capability.map_err(cannot("read the capability of the GPU"))?;
        if capability.0 < 8 {
            return Err(Error::OldGpu { name, capability });
        }
        let module = context.load_module(Ptx::from_src(KERNELS));
        let module = module.map_err(cannot("load the kernels"))?;
        let kernel = |name| module.load_function(name).map_err(cannot("find a kernel"));
        let shared = Shared {
            expand_tables: kernel("expand_tables")?,
            decode_segments: kernel("decode_segments")?,
            decode_rans_streams: kernel("decode_rans_streams")?,
            join_bfloat16_tiles: kernel("join_bfloat16_tiles")?,
            join_tiles: kernel("join_tiles")?,
            context,
            name,
        };
        for kernel in [&shared.decode_segments, &shared.join_bfloat16_tiles] {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let set = kernel.set_attribute(attribute, MAX_SHARED_BYTES);
            set.map_err(cannot("reserve shared memory"))?;
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the name of the GPU.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}

/// Memory of a GPU. A clone is another handle to the same memory.
#[derive(Clone)]
pub struct Memory {
    slice: Arc<CudaSlice<u8>>,
    len_bytes: u64,
}

impl Memory {
    /// Allocates memory whose allocated length is a multiple of 16. It can be used by
    /// work of `stream` and, after a wait for `stream`, by all other work.
    fn new(stream: &Arc<CudaStream>, len_bytes: u64) -> Result<Self> {
        let allocated = len_bytes.max(1).checked_next_multiple_of(16);
        let allocated = allocated.and_then(|len| usize::try_from(len).ok());
        let too_long = || Error::Usage("a buffer of over 2^64 bytes is needed".into());
        // SAFETY: the content is undefined. It is only read by kernels and by copies,
        // for which every content is valid.
        let slice = unsafe { stream.alloc(allocated.ok_or_else(too_long)?) };
        Ok(Self {
            slice: Arc::new(slice.map_err(cannot("allocate memory of the GPU"))?),
            len_bytes,
        })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the address in the memory of the GPU. It is valid while a handle exists.
    #[must_use]
    pub fn address(&self) -> u64 {
        // The guard records events for other users of the slice, of which there are
        // none: queues order their work themselves.
        let (address, _guard) = self.slice.device_ptr(self.slice.stream());
        address
    }

    /// Copies the bytes `range` to the host.
    ///
    /// # Errors
    /// [`Error::Usage`] if the range lies outside the memory.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let from = self.at(range.start, range.end.saturating_sub(range.start))?;
        let mut out = zstn_core::bytes::buffer(range.end - range.start)?;
        let context = self.slice.context();
        context.bind_to_thread().map_err(cannot("use the GPU"))?;
        if !out.is_empty() {
            // SAFETY: `at` has checked that the range lies in the allocation, which
            // `self.slice` keeps alive, and `out` has its length.
            let read = unsafe { result::memcpy_dtoh_sync(&mut out, from) };
            read.map_err(cannot("copy from the GPU"))?;
        }
        Ok(out)
    }

    /// Returns the address of `len_bytes` bytes at the offset `at`.
    fn at(&self, at: u64, len_bytes: u64) -> Result<u64> {
        let end = at.checked_add(len_bytes);
        if end.is_none_or(|end| end > self.len_bytes) {
            return Err(Error::Usage(format!(
                "{len_bytes} bytes at offset {at} lie outside a buffer of {} bytes",
                self.len_bytes
            )));
        }
        Ok(self.address() + at)
    }
}

impl Device for Gpu {
    type Memory = Memory;
    type Queue = GpuQueue;

    fn allocate(&self, len_bytes: u64) -> Result<Memory> {
        let stream = self.shared.context.default_stream();
        let memory = Memory::new(&stream, len_bytes)?;
        stream
            .synchronize()
            .map_err(cannot("allocate memory of the GPU"))?;
        Ok(memory)
    }

    fn queue(&self, buffer_bytes: usize) -> Result<GpuQueue> {
        let context = &self.shared.context;
        let stream = context.new_stream().map_err(cannot("create a stream"))?;
        // SAFETY: the bytes are written below, before anything reads them.
        let buffer = unsafe { context.alloc_pinned_with_flags(buffer_bytes.max(1), 0) };
        let mut buffer = buffer.map_err(cannot("allocate pinned memory"))?;
        let start: *mut u8 = buffer.as_mut_ptr().map_err(cannot("use pinned memory"))?;
        // SAFETY: the allocation has this length, and there is no other reference to it.
        unsafe { start.write_bytes(0, buffer_bytes.max(1)) };
        Ok(GpuQueue {
            shared: self.shared.clone(),
            stream,
            buffer,
            in_use: Vec::new(),
        })
    }
}

/// A stream of a GPU, with a pinned buffer.
pub struct GpuQueue {
    shared: Arc<Shared>,
    stream: Arc<CudaStream>,
    buffer: PinnedHostSlice<u8>,
    /// Memory that enqueued work may still use.
    in_use: Vec<Memory>,
}

impl Drop for GpuQueue {
    fn drop(&mut self) {
        // The buffer and the memory must exist until the work is done. If the driver
        // fails here, it has ended all work of the context.
        let _ = self.wait();
    }
}

impl GpuQueue {
    fn bind(&self) -> Result<()> {
        let bound = self.shared.context.bind_to_thread();
        bound.map_err(cannot("use the GPU"))
    }

    fn keep(&mut self, memory: &Memory) {
        let is_same = |kept: &Memory| Arc::ptr_eq(&kept.slice, &memory.slice);
        if !self.in_use.iter().any(is_same) {
            self.in_use.push(memory.clone());
        }
    }

    /// Starts to copy bytes of pageable memory.
    fn upload(&self, bytes: &[u8], address: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the callers pass the address of as many bytes of memory that exists
        // until the stream has done this work. The driver has read pageable memory when
        // this call returns.
        let copied = unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) };
        copied.map_err(cannot("copy to the GPU"))
    }

    /// Copies lists to new memory, and returns it with the address of each list.
    fn upload_lists(&self, lists: &[&[u8]]) -> Result<(Memory, Vec<u64>)> {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for list in lists {
            starts.push(bytes.len() as u64);
            bytes.extend_from_slice(list);
            bytes.resize(bytes.len().next_multiple_of(LIST_ALIGN), 0);
        }
        let memory = Memory::new(&self.stream, bytes.len() as u64)?;
        self.upload(&bytes, memory.address())?;
        let addresses = starts.iter().map(|start| memory.address() + start);
        let addresses = addresses.collect();
        Ok((memory, addresses))
    }

    /// Enqueues `blocks` blocks of a kernel with the arguments `launch` and `jobs`, or
    /// none if there are no blocks.
    ///
    /// # Safety
    /// The addresses in `launch` and `jobs` must be of memory that exists until the
    /// stream has done this work, with the lists and jobs of one plan and with buffers
    /// of the lengths that it requires.
    unsafe fn launch(
        &self,
        kernel: &CudaFunction,
        launch: &Launch,
        jobs: Option<&u64>,
        (blocks, threads, shared_mem_bytes): (usize, u32, u32),
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let too_many = |_| Error::Usage("a plan has 2^31 jobs: plan fewer tensors".into());
        let blocks = i32::try_from(blocks).map_err(too_many)?.unsigned_abs();
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes,
        };
        let mut builder = self.stream.launch_builder(kernel);
        builder.arg(launch);
        if let Some(jobs) = jobs {
            builder.arg(jobs);
        }
        // SAFETY: the kernels have these arguments (`kernels/*.cu`): `Launch`, and the
        // address of their jobs except for `expand_tables`. By this function's contract
        // the addresses are valid, and kernels check all streams before they use
        // positions in them, so that any content of the source is safe.
        let launched = unsafe { builder.launch(config) };
        launched.map(|_| ()).map_err(cannot("launch a kernel"))
    }
}

/// The kernels' `Launch`: addresses of lists and buffers.
#[derive(Clone, Copy)]
#[repr(C)]
struct Launch {
    source: u64,
    scratch: u64,
    output: u64,
    lists: [u64; 5],
    decode_tables: u64,
    damage: u64,
}

// SAFETY: the type consists of ten addresses of 64 bits, as the structure of this name in
// `kernels/lists.h` does, and has no padding.
unsafe impl DeviceRepr for Launch {}

impl Queue for GpuQueue {
    type Memory = Memory;

    fn buffer(&mut self) -> Result<&mut [u8]> {
        self.bind()?;
        let buffer = self.buffer.as_mut_slice();
        buffer.map_err(cannot("wait for the GPU"))
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> Result<()> {
        let outside = || Error::Usage("a copy begins outside of its buffer".into());
        let len = part.end.checked_sub(part.start).ok_or_else(outside)?;
        let to_address = to.at(at, len as u64)?;
        self.bind()?;
        self.keep(to);
        // SAFETY: the slice is only used to start a copy. The guard records an event
        // after the copy, for which `buffer` waits before it returns a reference.
        let (bytes, _guard) = unsafe { self.buffer.stream_synced_slice(&self.stream) };
        let bytes = bytes.get(part).ok_or_else(outside)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `to.at` has checked the range of the memory, which `in_use` keeps
        // alive until the stream has done the copy, and dropping the queue waits before
        // the buffer is freed.
        let copied =
            unsafe { result::memcpy_htod_async(to_address, bytes, self.stream.cu_stream()) };
        copied.map_err(cannot("copy to the GPU"))
    }

    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Memory,
        output: &Memory,
    ) -> Result<Option<Damage>> {
        let source_address = source.at(0, plan.source_len_bytes())?;
        let output_address = output.at(0, plan.output_len_bytes())?;
        self.bind()?;
        self.keep(source);
        self.keep(output);
        let jobs = Jobs::new(plan);
        let [tensors, planes, segments, huffman, rans] = plan.list_bytes();
        let report = [u32::MAX; 2];
        let (lists, addresses) = self.upload_lists(&[
            tensors,
            planes,
            segments,
            huffman,
            rans,
            jobs.segments.as_bytes(),
            jobs.rans.as_bytes(),
            jobs.bfloat16.as_bytes(),
            jobs.joins.as_bytes(),
            report.as_bytes(),
        ])?;
        self.keep(&lists);
        let Ok(addresses) = <[u64; 10]>::try_from(addresses) else {
            return Err(Error::Usage("a list has no address".into()));
        };
        let [
            a,
            b,
            c,
            d,
            e,
            segment_jobs,
            rans_jobs,
            bfloat16_tiles,
            join_tiles,
            damage,
        ] = addresses;
        let scratch = Memory::new(&self.stream, plan.scratch_len_bytes())?;
        self.keep(&scratch);
        let codes = plan.huffman_tables().len();
        let tables = Memory::new(&self.stream, codes as u64 * DECODE_TABLE_BYTES)?;
        self.keep(&tables);
        for (host_segment, bytes) in plan.host_segments().iter().zip(host) {
            let memory = match host_place(plan, host_segment) {
                Some((Space::Output, at)) => output.at(at, bytes.len() as u64)?,
                Some((Space::Scratch, at)) => scratch.at(at, bytes.len() as u64)?,
                None => continue,
            };
            self.upload(bytes, memory)?;
        }
        let launch = Launch {
            source: source_address,
            scratch: scratch.address(),
            output: output_address,
            lists: [a, b, c, d, e],
            decode_tables: tables.address(),
            damage,
        };
        let stream_shared = stream_shared_bytes(plan);
        let kernels = self.shared.clone();
        let kernels: [(_, _, _); 5] = [
            (&kernels.expand_tables, None, (codes, TABLE_THREADS, 0)),
            (
                &kernels.decode_segments,
                Some(&segment_jobs),
                (jobs.segments.len(), STREAM_THREADS, stream_shared),
            ),
            (
                &kernels.decode_rans_streams,
                Some(&rans_jobs),
                (jobs.rans.len(), RANS_THREADS, 0),
            ),
            (
                &kernels.join_bfloat16_tiles,
                Some(&bfloat16_tiles),
                (jobs.bfloat16.len(), STREAM_THREADS, stream_shared),
            ),
            (
                &kernels.join_tiles,
                Some(&join_tiles),
                (jobs.joins.len(), JOIN_THREADS, 0),
            ),
        ];
        for (kernel, jobs, size) in kernels {
            // SAFETY: all lists and jobs are of `plan`, which only the core makes. The
            // source and the output have the lengths that it states, as `Memory::at` has
            // checked, the scratch buffer and the tables were allocated for it, and
            // `in_use` keeps all of them until the stream has been waited for. All are
            // allocated to the next multiple of 16.
            unsafe { self.launch(kernel, &launch, jobs, size)? };
        }
        self.wait()?;
        let mut found = report;
        // SAFETY: the report has eight bytes in `lists`, which still exists.
        let read = unsafe { result::memcpy_dtoh_sync(&mut found, damage) };
        read.map_err(cannot("copy from the GPU"))?;
        Ok(Damage::of_report(found))
    }

    fn wait(&mut self) -> Result<()> {
        self.bind()?;
        self.stream
            .synchronize()
            .map_err(cannot("wait for the GPU"))?;
        self.in_use.clear();
        Ok(())
    }
}
