//! A stream of a GPU, with the memory that its work uses.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::CUevent_flags;
use zerocopy::IntoBytes as _;
use zstn_core::frame::plan::{DevicePlan, Space};

use super::context::{Context, Event, Pinned, Stream, cannot};
use super::{Memory, Permit, Shared};
use crate::{Damage, Error, Jobs, Output, Queue, Result, host_place};

mod launches;
mod lists;

use launches::{JobPlaces, Launch};
use lists::{address_of, append, at_addresses};

/// Number of buffers of a queue.
const RING: usize = 2;
/// The length of the kernels' `DecodeTable`.
const DECODE_TABLE_BYTES: u64 = 8448;

/// The parts of a queue that another queue can use again.
pub(super) struct Parts {
    stream: Stream,
    /// The buffers that copies are made from.
    ring: [Buffer; RING],
    /// Index of the buffer that was returned last.
    current: usize,
    source: Option<Memory>,
    /// Memory for lists, planes and expanded codes, which all plans use.
    lists: Option<Memory>,
    scratch: Option<Memory>,
    tables: Option<Memory>,
    /// The start and the end of the kernels of the last plan.
    kernels: [Event; 2],
}

struct Buffer {
    pinned: Pinned,
    /// Follows the last copy from the buffer.
    copied: Event,
}

impl Parts {
    /// The context must be the current one.
    fn new(context: &Arc<Context>, buffer_bytes: usize) -> Result<Self> {
        let buffer = || {
            Ok::<_, Error>(Buffer {
                pinned: Pinned::zeroed(context, buffer_bytes)?,
                copied: Event::new(context, CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
            })
        };
        let timed = || Event::new(context, CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self {
            stream: Stream::new(context)?,
            ring: [buffer()?, buffer()?],
            current: 0,
            source: None,
            lists: None,
            scratch: None,
            tables: None,
            kernels: [timed()?, timed()?],
        })
    }

    pub fn buffer_bytes(&self) -> usize {
        self.ring[0].pinned.len()
    }

    pub fn pinned_bytes(&self) -> u64 {
        self.ring.len() as u64 * self.buffer_bytes() as u64
    }

    /// Frees all memory of the GPU, which other libraries may need between loads.
    fn free_device_memory(&mut self) {
        self.source = None;
        self.lists = None;
        self.scratch = None;
        self.tables = None;
    }
}

/// A stream of a GPU, with pinned buffers.
pub struct GpuQueue {
    shared: Arc<Shared>,
    /// Taken when the queue is dropped.
    parts: ManuallyDrop<Parts>,
    /// Memory of callers that enqueued work may still use.
    in_use: Vec<Memory>,
    /// Dropped last, when the buffers are idle or have been freed.
    _permit: Permit,
}

impl Drop for GpuQueue {
    fn drop(&mut self) {
        // The buffers and the memory must exist until the work is done. If the driver
        // fails here, it has ended all work of the context.
        let waited = self.wait();
        // SAFETY: nothing uses the field after this, as the queue is being dropped.
        let mut parts = unsafe { ManuallyDrop::take(&mut self.parts) };
        if waited.is_ok() {
            parts.free_device_memory();
            self.shared.put_idle(parts);
        }
    }
}

impl GpuQueue {
    /// Creates a queue; see [`Device::queue`](crate::Device::queue).
    pub(super) fn new(
        shared: &Arc<Shared>,
        buffer_bytes: usize,
        patience: Duration,
    ) -> Result<Option<Self>> {
        let buffer_bytes = buffer_bytes.max(1);
        let pinned_bytes = (RING as u64).saturating_mul(buffer_bytes as u64);
        let Some(permit) = Permit::new(shared, pinned_bytes, patience) else {
            return Ok(None);
        };
        let _entered = shared.context.enter()?;
        let parts = match shared.take_idle(buffer_bytes) {
            Some(parts) => parts,
            None => Parts::new(&shared.context, buffer_bytes)?,
        };
        Ok(Some(Self {
            shared: shared.clone(),
            parts: ManuallyDrop::new(parts),
            in_use: Vec::new(),
            _permit: permit,
        }))
    }

    /// Lets all later work wait for an event.
    pub(super) fn wait_for(&self, event: &Event) -> Result<()> {
        let _entered = self.shared.context.enter()?;
        self.parts.stream.wait_for(event)
    }

    /// Returns how many seconds the kernels of the last plan have taken, without the
    /// copies of lists and of bytes of bases.
    ///
    /// # Errors
    /// No plan has been decoded.
    pub fn kernel_seconds(&self) -> Result<f32> {
        let _entered = self.shared.context.enter()?;
        let [start, end] = &self.parts.kernels;
        start.seconds_to(end)
    }

    fn keep(&mut self, memory: &Memory) {
        let is_kept = |kept: &Memory| memory.is_kept_by(kept);
        if !memory.is_of_caller() && !self.in_use.iter().any(is_kept) {
            self.in_use.push(memory.clone());
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
        let stream = self.parts.stream.raw();
        // SAFETY: by this function's contract, both ranges are valid during the copy.
        let copied = unsafe { result::memcpy_htod_async(address, bytes, stream) };
        copied.map_err(cannot("copy to the GPU"))
    }

    /// Starts to copy the decoded host segments of a plan to their planes.
    ///
    /// # Safety
    /// `host` and the outputs must exist until the stream has done this work.
    unsafe fn upload_host_segments(
        &self,
        plan: &DevicePlan,
        jobs: &Jobs,
        host: &[Vec<u8>],
        scratch: &Memory,
        outputs: &[Output<'_, Memory>],
    ) -> Result<()> {
        for (segment, bytes) in plan.host_segments().iter().zip(host) {
            let len_bytes = bytes.len() as u64;
            let address = match host_place(plan, jobs, segment) {
                Some((Space::Output, at)) => address_of(outputs, at, len_bytes)?,
                Some((Space::Scratch, at)) => scratch.at(at, len_bytes)?,
                None => continue,
            };
            // SAFETY: `Memory::at` has checked the range, `self` keeps the scratch
            // buffer, and the caller keeps the rest.
            unsafe { self.upload(bytes, address)? };
        }
        Ok(())
    }
}

/// Returns memory of at least `len_bytes` bytes: that of `slot`, or new memory in its
/// place. No work may be using the old memory. The context must be the current one.
fn grown(context: &Arc<Context>, slot: &mut Option<Memory>, len_bytes: u64) -> Result<Memory> {
    slot.take_if(|memory| memory.len_bytes() < len_bytes);
    match slot {
        Some(memory) => Ok(memory.clone()),
        None => Ok(slot.insert(Memory::new(context, len_bytes)?).clone()),
    }
}

impl Queue for GpuQueue {
    type Memory = Memory;

    fn buffer(&mut self) -> Result<&mut [u8]> {
        let _entered = self.shared.context.enter()?;
        let parts = &mut *self.parts;
        parts.current = (parts.current + 1) % parts.ring.len();
        let buffer = &mut parts.ring[parts.current];
        buffer.copied.synchronize()?;
        Ok(buffer.pinned.as_mut_slice())
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> Result<()> {
        to.check_of(&self.shared.context)?;
        let _entered = self.shared.context.enter()?;
        let parts = &*self.parts;
        let buffer = &parts.ring[parts.current];
        let outside = || Error::Usage("a copy reads outside of its buffer".into());
        let bytes = buffer.pinned.as_slice().get(part).ok_or_else(outside)?;
        let address = to.at(at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `Memory::at` has checked the range of the memory, which `self.in_use`
        // keeps from the next line on until the stream has done the copy. `buffer` waits
        // for the event that follows the copy before it returns a mutable reference, and
        // dropping the queue waits for the stream before the buffer is freed.
        let enqueued = unsafe { self.upload(bytes, address) };
        let recorded = enqueued.and_then(|()| buffer.copied.record(&parts.stream));
        self.keep(to);
        if let Err(error) = recorded {
            self.wait()?;
            return Err(error);
        }
        Ok(())
    }

    fn source(&mut self) -> Result<Memory> {
        let context = &self.shared.context;
        let _entered = context.enter()?;
        let len_bytes = self.parts.buffer_bytes() as u64;
        grown(context, &mut self.parts.source, len_bytes)
    }

    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Memory,
        outputs: &[Output<'_, Memory>],
    ) -> Result<Option<Damage>> {
        let source_address = source.at(0, plan.source_len_bytes())?;
        let memories = outputs.iter().map(|output| output.memory);
        for memory in memories.clone().chain([source]) {
            memory.check_of(&self.shared.context)?;
        }
        let lens = plan.host_segments().iter().map(|segment| segment.len);
        if !lens.eq(host.iter().map(|bytes| bytes.len() as u64)) {
            return Err(Error::Usage(
                "the decoded host segments are not those of the plan".into(),
            ));
        }
        let mut jobs = Jobs::new(plan);
        let places = at_addresses(plan, &mut jobs, outputs)?;
        let mut found = [u32::MAX; 4];
        let job_lists = [
            jobs.segments.as_bytes(),
            jobs.copies.as_bytes(),
            jobs.rans.as_bytes(),
            jobs.bfloat16.as_bytes(),
            jobs.joins.as_bytes(),
            jobs.lattices.as_bytes(),
            jobs.sparse.as_bytes(),
            jobs.sparse_sums.as_bytes(),
            jobs.differences.as_bytes(),
            jobs.xors.as_bytes(),
            jobs.digests.as_bytes(),
            jobs.digest_sums.as_bytes(),
        ];
        let mut bytes = Vec::new();
        append(&mut bytes, [found.as_bytes()]);
        let list_starts = append(&mut bytes, places.list_bytes(plan));
        let job_starts = append(&mut bytes, job_lists);
        let _entered = self.shared.context.enter()?;
        let context = &self.shared.context;
        let codes = plan.huffman_tables().len() as u64;
        let parts = &mut *self.parts;
        // The last plan is done, because this function waits for it.
        let lists = grown(context, &mut parts.lists, bytes.len() as u64)?;
        let scratch = grown(context, &mut parts.scratch, jobs.scratch_len_bytes)?;
        let tables = grown(context, &mut parts.tables, codes * DECODE_TABLE_BYTES)?;
        let [
            segments,
            copies,
            rans,
            bfloat16,
            joins,
            lattices,
            sparse,
            sparse_sums,
            differences,
            xors,
            digests,
            digest_sums,
        ] = job_starts.map(|start| lists.address() + start);
        let places = JobPlaces {
            segments,
            copies,
            rans,
            bfloat16,
            joins,
            lattices,
            sparse,
            sparse_sums,
            differences,
            xors,
            digests,
            digest_sums,
        };
        let launch = Launch {
            source: source_address,
            scratch: scratch.address(),
            output: 0,
            lists: list_starts.map(|start| lists.address() + start),
            decode_tables: tables.address(),
            damage: lists.address(),
        };
        for memory in memories.chain([source]) {
            self.keep(memory);
        }
        // SAFETY: `bytes`, `host`, the lists, the scratch buffer and the tables exist
        // until `wait` has returned, and `self.in_use` contains the source and the
        // outputs. The lists and jobs are of `plan`, which only the core makes, and all
        // places in its output have been replaced by addresses, whose lengths
        // `Memory::at` has checked. The source has the length that the plan states; the
        // other buffers have grown to the lengths that it needs; and all are allocated up
        // to a multiple of 16.
        let enqueued = unsafe {
            self.upload(&bytes, lists.address())
                .and_then(|()| self.launch_base(&jobs, &launch, &places))
                .and_then(|()| self.upload_host_segments(plan, &jobs, host, &scratch, outputs))
                .and_then(|()| self.launch_all(plan, &jobs, &launch, &places))
        };
        let enqueued = enqueued.and_then(|()| {
            let stream = self.parts.stream.raw();
            // SAFETY: the report has 16 bytes at the start of the lists, and `found`
            // exists until `wait` has returned.
            let read = unsafe { result::memcpy_dtoh_async(&mut found, lists.address(), stream) };
            read.map_err(cannot("copy from the GPU"))
        });
        self.wait()?;
        enqueued?;
        Ok(Damage::of_report(found))
    }

    fn wait(&mut self) -> Result<()> {
        let _entered = self.shared.context.enter()?;
        self.parts.stream.synchronize()?;
        self.in_use.clear();
        Ok(())
    }
}
