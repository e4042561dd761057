//! NVIDIA GPUs, by the driver's interface. The driver is loaded when a GPU is opened, so
//! programs build and start without it.

#![allow(unsafe_code)] // the driver's interface is unsafe

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent_flags, CUfunction_attribute};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr as _, DeviceRepr,
    DriverError, LaunchConfig, PinnedHostSlice, PushKernelArg as _, result,
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
        // SAFETY: nothing relies on events that slices record for each other: a queue
        // does its work in order on one stream, and other queues and copies to the host
        // use its results only after `Queue::wait`.
        unsafe { context.disable_event_tracking() };
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
    allocation: Arc<Allocation>,
    len_bytes: u64,
}

struct Allocation {
    slice: CudaSlice<u8>,
    address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // The slice is freed after this, which requires the context. If it cannot be
        // used, the driver has freed its memory.
        let _ = bind(self.slice.context());
    }
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
        let slice = slice.map_err(cannot("allocate memory of the GPU"))?;
        let (address, _) = slice.device_ptr(stream);
        Ok(Self {
            allocation: Arc::new(Allocation { address, slice }),
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
        self.allocation.address
    }

    /// Copies the bytes `range` to the host.
    ///
    /// # Errors
    /// [`Error::Usage`] if the range lies outside the memory.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let outside = || Error::Usage("a range ends before it begins".into());
        let len_bytes = range.end.checked_sub(range.start).ok_or_else(outside)?;
        let from = self.at(range.start, len_bytes)?;
        let mut out = zstn_core::bytes::buffer(len_bytes)?;
        let context = self.allocation.slice.context();
        bind(context)?;
        if !out.is_empty() {
            // SAFETY: `at` has checked that the range lies in the allocation, which
            // `self` keeps alive, and `out` has its length.
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
        let event = |flags| {
            let event = context.new_event(Some(flags));
            event.map_err(cannot("create an event"))
        };
        let timed = CUevent_flags::CU_EVENT_DEFAULT;
        Ok(GpuQueue {
            shared: self.shared.clone(),
            lists: Memory::new(&stream, 0)?,
            scratch: Memory::new(&stream, 0)?,
            tables: Memory::new(&stream, 0)?,
            stream,
            buffer,
            in_use: Vec::new(),
            copied: event(CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
            kernels: [event(timed)?, event(timed)?],
        })
    }
}

/// A stream of a GPU, with a pinned buffer.
pub struct GpuQueue {
    shared: Arc<Shared>,
    stream: Arc<CudaStream>,
    buffer: PinnedHostSlice<u8>,
    /// Follows the last copy from the buffer.
    copied: CudaEvent,
    /// Memory of callers that enqueued work may still use.
    in_use: Vec<Memory>,
    /// Memory for lists, planes and expanded codes, which all plans use.
    lists: Memory,
    scratch: Memory,
    tables: Memory,
    /// The start and the end of the kernels of the last plan.
    kernels: [CudaEvent; 2],
}

impl Drop for GpuQueue {
    fn drop(&mut self) {
        // The buffer and the memory must exist until the work is done. If the driver
        // fails here, it has ended all work of the context.
        let _ = self.wait();
    }
}

impl GpuQueue {
    /// Returns how many seconds the kernels of the last plan have taken, without the
    /// copies of lists.
    ///
    /// # Errors
    /// No plan has been decoded.
    pub fn kernel_seconds(&self) -> Result<f32> {
        let [start, end] = &self.kernels;
        let ms = start.elapsed_ms(end);
        Ok(ms.map_err(cannot("measure kernels"))? / 1000.0)
    }

    fn record(&self, event: &CudaEvent) -> Result<()> {
        let recorded = event.record(&self.stream);
        recorded.map_err(cannot("record an event"))
    }

    fn bind(&self) -> Result<()> {
        bind(&self.shared.context)
    }

    /// Refuses memory of another GPU, whose addresses mean something else here.
    fn check_own(&self, memory: &Memory) -> Result<()> {
        match Arc::ptr_eq(memory.allocation.slice.context(), &self.shared.context) {
            true => Ok(()),
            false => Err(Error::Usage("the memory belongs to another GPU".into())),
        }
    }

    fn keep(&mut self, memory: &Memory) {
        let is_same = |kept: &Memory| Arc::ptr_eq(&kept.allocation, &memory.allocation);
        if !self.in_use.iter().any(is_same) {
            self.in_use.push(memory.clone());
        }
    }

    /// Returns memory of at least `len_bytes` bytes: `memory`, or new memory in its place.
    fn grown(&self, memory: &Memory, len_bytes: u64) -> Result<Memory> {
        match memory.len_bytes >= len_bytes {
            true => Ok(memory.clone()),
            false => Memory::new(&self.stream, len_bytes),
        }
    }

    /// Starts to copy bytes of pageable memory.
    ///
    /// # Safety
    /// `bytes` and the memory at `address`, which has at least their length, must exist
    /// until the stream has done this work.
    unsafe fn upload(&self, bytes: &[u8], address: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: by this function's contract, both ranges are valid during the copy.
        let copied = unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) };
        copied.map_err(cannot("copy to the GPU"))
    }

    /// Starts to copy the decoded host segments of a plan to their planes.
    ///
    /// # Safety
    /// `host` and `output` must exist until the stream has done this work.
    unsafe fn upload_host_segments(
        &self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        output: &Memory,
    ) -> Result<()> {
        for (segment, bytes) in plan.host_segments().iter().zip(host) {
            let len_bytes = bytes.len() as u64;
            let address = match host_place(plan, segment) {
                Some((Space::Output, at)) => output.at(at, len_bytes)?,
                Some((Space::Scratch, at)) => self.scratch.at(at, len_bytes)?,
                None => continue,
            };
            // SAFETY: `Memory::at` has checked the range, `self` keeps the scratch
            // buffer, and the caller keeps the rest.
            unsafe { self.upload(bytes, address)? };
        }
        Ok(())
    }

    /// Enqueues all kernels for a plan.
    ///
    /// # Safety
    /// The caller guarantees for all jobs of the plan what `launch` requires.
    unsafe fn launch_all(
        &self,
        plan: &DevicePlan,
        jobs: &Jobs,
        launch: &Launch,
        [segments, rans, bfloat16, joins]: &[u64; 4],
    ) -> Result<()> {
        let kernels = &*self.shared;
        let codes = plan.huffman_tables().len();
        let shared_bytes = stream_shared_bytes(plan);
        let of_streams = |blocks| (blocks, STREAM_THREADS, shared_bytes);
        let kernels = [
            (&kernels.expand_tables, None, (codes, TABLE_THREADS, 0)),
            (
                &kernels.decode_segments,
                Some(segments),
                of_streams(jobs.segments.len()),
            ),
            (
                &kernels.decode_rans_streams,
                Some(rans),
                (jobs.rans.len(), RANS_THREADS, 0),
            ),
            (
                &kernels.join_bfloat16_tiles,
                Some(bfloat16),
                of_streams(jobs.bfloat16.len()),
            ),
            (
                &kernels.join_tiles,
                Some(joins),
                (jobs.joins.len(), JOIN_THREADS, 0),
            ),
        ];
        let [start, end] = &self.kernels;
        self.record(start)?;
        for (kernel, jobs, size) in kernels {
            // SAFETY: the caller guarantees it for all jobs.
            unsafe { self.launch(kernel, launch, jobs, size)? };
        }
        self.record(end)
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

/// Makes the context the current one of this thread.
fn bind(context: &CudaContext) -> Result<()> {
    // The first call reports, and forgets, an error of any object that was dropped.
    let bound = context.bind_to_thread();
    let bound = bound.or_else(|_| context.bind_to_thread());
    bound.map_err(cannot("use the GPU"))
}

/// Concatenates lists. Returns the bytes, and where each list begins.
fn concatenated<const N: usize>(lists: [&[u8]; N]) -> (Vec<u8>, [u64; N]) {
    let mut bytes = Vec::new();
    let starts = lists.map(|list| {
        let start = bytes.len() as u64;
        bytes.extend_from_slice(list);
        bytes.resize(bytes.len().next_multiple_of(LIST_ALIGN), 0);
        start
    });
    (bytes, starts)
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
        let waited = self.copied.synchronize();
        waited.map_err(cannot("wait for the GPU"))?;
        let buffer = self.buffer.as_mut_slice();
        buffer.map_err(cannot("use pinned memory"))
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> Result<()> {
        self.check_own(to)?;
        self.bind()?;
        let bytes = self.buffer.as_slice();
        let bytes = bytes.map_err(cannot("use pinned memory"))?;
        let outside = || Error::Usage("a copy reads outside of its buffer".into());
        let bytes = bytes.get(part).ok_or_else(outside)?;
        let address = to.at(at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `Memory::at` has checked the range of the memory, which `self.in_use`
        // keeps from the next line on until the stream has done the copy. `buffer` waits
        // for the event that follows the copy before it returns a mutable reference, and
        // dropping the queue waits for the stream before the buffer is freed.
        let enqueued =
            unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) };
        self.keep(to);
        enqueued.map_err(cannot("copy to the GPU"))?;
        if let Err(error) = self.record(&self.copied) {
            self.wait()?;
            return Err(error);
        }
        Ok(())
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
        self.check_own(source)?;
        self.check_own(output)?;
        let lens = plan.host_segments().iter().map(|segment| segment.len);
        if !lens.eq(host.iter().map(|bytes| bytes.len() as u64)) {
            return Err(Error::Usage(
                "the decoded host segments are not those of the plan".into(),
            ));
        }
        self.bind()?;
        self.keep(source);
        self.keep(output);
        let jobs = Jobs::new(plan);
        let [tensors, planes, segments, huffman, rans] = plan.list_bytes();
        let mut found = [u32::MAX; 2];
        let (bytes, starts) = concatenated([
            found.as_bytes(),
            tensors,
            planes,
            segments,
            huffman,
            rans,
            jobs.segments.as_bytes(),
            jobs.rans.as_bytes(),
            jobs.bfloat16.as_bytes(),
            jobs.joins.as_bytes(),
        ]);
        let codes = plan.huffman_tables().len();
        self.lists = self.grown(&self.lists, bytes.len() as u64)?;
        self.scratch = self.grown(&self.scratch, plan.scratch_len_bytes())?;
        self.tables = self.grown(&self.tables, codes as u64 * DECODE_TABLE_BYTES)?;
        let addresses = starts.map(|start| self.lists.address() + start);
        let launch = Launch {
            source: source_address,
            scratch: self.scratch.address(),
            output: output_address,
            lists: [
                addresses[1],
                addresses[2],
                addresses[3],
                addresses[4],
                addresses[5],
            ],
            decode_tables: self.tables.address(),
            damage: addresses[0],
        };
        let job_addresses = [addresses[6], addresses[7], addresses[8], addresses[9]];
        // SAFETY: `bytes`, `host`, the lists, the scratch buffer and the tables exist
        // until `wait` has returned, and `self.in_use` contains the source and the
        // output. The lists and jobs are of `plan`, which only the core makes. The
        // source and the output have the lengths that it states, as `Memory::at` has
        // checked; the other buffers have grown to the lengths that it needs; and all
        // are allocated up to a multiple of 16.
        let enqueued = unsafe {
            self.upload(&bytes, self.lists.address())
                .and_then(|()| self.upload_host_segments(plan, host, output))
                .and_then(|()| self.launch_all(plan, &jobs, &launch, &job_addresses))
        };
        self.wait()?;
        enqueued?;
        // SAFETY: the report has eight bytes at the start of the lists.
        let read = unsafe { result::memcpy_dtoh_sync(&mut found, self.lists.address()) };
        read.map_err(cannot("copy from the GPU"))?;
        Ok(Damage::of_report(found))
    }

    fn wait(&mut self) -> Result<()> {
        // The first call may report an error of another object without waiting.
        let waited = self.stream.synchronize();
        let waited = waited.or_else(|_| self.stream.synchronize());
        waited.map_err(cannot("wait for the GPU"))?;
        self.in_use.clear();
        Ok(())
    }
}
