//! Launches the kernels for a plan.

use std::ffi::c_void;

use cudarc::driver::result;
use zstn_core::frame::plan::DevicePlan;

use super::super::context::{Kernel, cannot};
use super::GpuQueue;
use crate::{Error, Jobs, Result, difference_shared_bytes, stream_shared_bytes};

/// Numbers of threads of a block.
const TABLE_THREADS: u32 = 128;
const STREAM_THREADS: u32 = 512;
const COPY_THREADS: u32 = 256;
const RANS_THREADS: u32 = 32;
const JOIN_THREADS: u32 = 256;
const SPARSE_THREADS: u32 = 256;
const SUM_THREADS: u32 = 256;
/// Eight warps, one for each block of a difference.
const DIFFERENCE_THREADS: u32 = 256;
const XOR_THREADS: u32 = 256;
const DIGEST_THREADS: u32 = 128;

/// The kernels' `Launch` (`kernels/lists.h`): 17 addresses of 64 bits.
#[repr(C)]
pub(super) struct Launch {
    pub source: u64,
    pub scratch: u64,
    /// Always 0, because lists contain addresses instead of offsets in the output.
    pub output: u64,
    pub lists: [u64; 12],
    pub decode_tables: u64,
    pub damage: u64,
}

/// The addresses of the lists of jobs.
pub(super) struct JobPlaces {
    pub segments: u64,
    pub copies: u64,
    pub rans: u64,
    pub bfloat16: u64,
    pub joins: u64,
    pub lattices: u64,
    pub sparse: u64,
    pub sparse_sums: u64,
    pub differences: u64,
    pub xors: u64,
    pub digests: u64,
    pub digest_sums: u64,
}

impl GpuQueue {
    /// Enqueues the kernel that copies bytes of the base, which the others replace.
    ///
    /// # Safety
    /// The caller guarantees for all jobs of the plan what `launch` requires.
    pub(super) unsafe fn launch_base(
        &self,
        jobs: &Jobs,
        launch: &Launch,
        places: &JobPlaces,
    ) -> Result<()> {
        let kernel = self.shared.kernels.save_bases;
        // SAFETY: the caller guarantees it for all jobs.
        unsafe {
            self.launch(
                kernel,
                launch,
                places.xors,
                (jobs.xors.len(), XOR_THREADS, 0),
            )
        }
    }

    /// Enqueues all other kernels for a plan.
    ///
    /// # Safety
    /// The caller guarantees for all jobs of the plan what `launch` requires.
    pub(super) unsafe fn launch_all(
        &self,
        plan: &DevicePlan,
        jobs: &Jobs,
        launch: &Launch,
        places: &JobPlaces,
    ) -> Result<()> {
        let kernels = &self.shared.kernels;
        let codes = plan.huffman_tables().len();
        let shared_bytes = stream_shared_bytes(plan);
        let of_streams = |blocks| (blocks, STREAM_THREADS, shared_bytes);
        let copies_size = (jobs.copies.len(), COPY_THREADS, 0);
        let rans_size = (jobs.rans.len(), RANS_THREADS, 0);
        let sparse_size = (jobs.sparse.len(), SPARSE_THREADS, 0);
        let shared_bytes = difference_shared_bytes(plan);
        let differences_size = (jobs.differences.len(), DIFFERENCE_THREADS, shared_bytes);
        let kernels = [
            (kernels.expand_tables, 0, (codes, TABLE_THREADS, 0)),
            (
                kernels.decode_segments,
                places.segments,
                of_streams(jobs.segments.len()),
            ),
            (kernels.copy_segments, places.copies, copies_size),
            (kernels.decode_rans_streams, places.rans, rans_size),
            (
                kernels.join_bfloat16_tiles,
                places.bfloat16,
                of_streams(jobs.bfloat16.len()),
            ),
            (
                kernels.join_tiles,
                places.joins,
                (jobs.joins.len(), JOIN_THREADS, 0),
            ),
            (
                kernels.join_lattice_tiles,
                places.lattices,
                (jobs.lattices.len(), JOIN_THREADS, 0),
            ),
            (kernels.count_sparse_tiles, places.sparse, sparse_size),
            (
                kernels.add_up_sparse_tensors,
                places.sparse_sums,
                (jobs.sparse_sums.len(), SUM_THREADS, 0),
            ),
            (kernels.join_sparse_tiles, places.sparse, sparse_size),
            (
                kernels.decode_difference_blocks,
                places.differences,
                differences_size,
            ),
            (
                kernels.apply_xors,
                places.xors,
                (jobs.xors.len(), XOR_THREADS, 0),
            ),
            (
                kernels.hash_tiles,
                places.digests,
                (jobs.digests.len(), DIGEST_THREADS, 0),
            ),
            (
                kernels.compare_digests,
                places.digest_sums,
                (jobs.digest_sums.len(), DIGEST_THREADS, 0),
            ),
        ];
        let [start, end] = &self.parts.kernels;
        start.record(&self.parts.stream)?;
        for (kernel, jobs, size) in kernels {
            // SAFETY: the caller guarantees it for all jobs.
            unsafe { self.launch(kernel, launch, jobs, size)? };
        }
        end.record(&self.parts.stream)
    }

    /// Enqueues `blocks` blocks of a kernel with the arguments `launch` and `jobs`, or
    /// none if there are no blocks. `expand_tables` ignores the jobs.
    ///
    /// # Safety
    /// The addresses in `launch` and `jobs` must be of memory that exists until the
    /// stream has done this work, with the lists and jobs of one plan and with buffers
    /// of the lengths that it requires.
    unsafe fn launch(
        &self,
        kernel: Kernel,
        launch: &Launch,
        jobs: u64,
        (blocks, threads, shared_bytes): (usize, u32, u32),
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let too_many = |_| Error::Usage("a plan has 2^31 jobs: plan fewer tensors".into());
        let blocks = i32::try_from(blocks).map_err(too_many)?.unsigned_abs();
        let mut arguments: [*mut c_void; 2] = [
            std::ptr::from_ref(launch).cast_mut().cast(),
            std::ptr::from_ref(&jobs).cast_mut().cast(),
        ];
        let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
        let stream = self.parts.stream.raw();
        // SAFETY: the kernels have these arguments (`kernels/*.cu`): `Launch`, and the
        // address of their jobs except for `expand_tables`, for which the driver reads
        // one argument. The driver copies them during the call. By this function's
        // contract the addresses are valid, and kernels check all streams before they use
        // positions in them, so that any content of the source is safe.
        let launched = unsafe {
            result::launch_kernel(kernel.0, grid, block, shared_bytes, stream, &mut arguments)
        };
        launched.map_err(cannot("launch a kernel"))
    }
}
