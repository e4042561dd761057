//! The operations of an accelerator that loading a model requires.

use std::ops::Range;
use std::time::Duration;

use zstn_core::frame::plan::DevicePlan;

use crate::{Damage, Error, Result};

/// An accelerator with memory of its own.
pub trait Device: Sync {
    /// A handle to memory of the device. A clone is another handle to the same memory.
    type Memory: Clone + Send + Sync;
    /// A queue of work.
    type Queue: Queue<Memory = Self::Memory>;

    /// Allocates `len_bytes` bytes, which have no defined content. They can be read up
    /// to the next multiple of 16, and begin at a multiple of 16.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`] if the device does not have as much free memory.
    fn allocate(&self, len_bytes: u64) -> Result<Self::Memory>;

    /// Creates a queue whose buffers have `buffer_bytes` bytes each. Returns `None` if this
    /// would exceed the memory that the device allows all of its queues together, and still
    /// does so after the time `patience`, in which other queues may be dropped. The only
    /// queue of a device always gets its buffers.
    ///
    /// A load waits for its first queue without an end, and uses fewer threads if the
    /// device refuses further ones. Loads cannot wait for each other, because a load has no
    /// queue while it waits. A thread with a queue of its own must not start a load.
    ///
    /// # Errors
    /// The driver refuses to.
    fn queue(&self, buffer_bytes: usize, patience: Duration) -> Result<Option<Self::Queue>>;
}

/// Work that a device does in order. Queues of the same device work at the same time.
/// Dropping a queue waits until all of its work is done.
pub trait Queue {
    /// Memory of the device.
    type Memory;

    /// Returns one of the buffers on the host that copies are made from, after all
    /// copies from it have ended. Copies from the buffer before it may be in progress.
    ///
    /// # Errors
    /// Earlier work failed.
    fn buffer(&mut self) -> Result<&mut [u8]>;

    /// Starts to copy the bytes `part` of the buffer that [`Queue::buffer`] returned last
    /// to the offset `at` of `to`.
    ///
    /// # Errors
    /// [`Error::Usage`] if a range lies outside its buffer.
    fn copy(&mut self, part: Range<usize>, to: &Self::Memory, at: u64) -> Result<()>;

    /// Returns memory of the device for the stored bytes of tensors, with the length of a
    /// buffer. It is the same memory each time, and only this queue uses it.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`] if the device does not have as much free memory.
    fn source(&mut self) -> Result<Self::Memory>;

    /// Decodes a plan, after all copies of this queue, and waits until the output is
    /// complete. `host` are the decoded bytes of the plan's host segments, in their
    /// order, and `outputs` the places of all bytes that the plan puts out. The output
    /// has no defined content in tensors that are damaged. Other queues must not write to
    /// the source in the meantime.
    ///
    /// If the plan contains records of a delta, `outputs` already contain the base's tensors,
    /// written by queues whose work is done. The queue reads them before it writes to them.
    /// After decoding, it compares the plan's digests.
    ///
    /// # Errors
    /// [`Error::Usage`] if a buffer is shorter than the plan requires, if `host` does not
    /// have the segments of the plan, if an output has no place, or if memory belongs to
    /// another device; [`Error::DeviceMemory`] if the device does not have enough free
    /// memory for planes and lists. Nothing has been decoded then.
    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Self::Memory,
        outputs: &[Output<'_, Self::Memory>],
    ) -> Result<Option<Damage>>;

    /// Waits until all work is done.
    ///
    /// # Errors
    /// Earlier work failed.
    fn wait(&mut self) -> Result<()>;
}

/// The place of some bytes of a plan's output in the memory of a device.
#[derive(Debug)]
pub struct Output<'m, M> {
    /// The bytes in the output of the plan.
    pub planned: Range<u64>,
    /// The memory that they are written to.
    pub memory: &'m M,
    /// Offset of the first of them in the memory.
    pub at: u64,
}

impl<'m, M> Output<'m, M> {
    /// Returns the memory of `len_bytes` bytes at the offset `at` of a plan's output, and
    /// their offset there. `outputs` are in ascending order.
    ///
    /// # Errors
    /// [`Error::Usage`] if no output contains all of these bytes.
    pub fn find(outputs: &[Self], at: u64, len_bytes: u64) -> Result<(&'m M, u64)> {
        let number = outputs.partition_point(|output| output.planned.end <= at);
        let found = outputs.get(number).and_then(|output| {
            let offset = at.checked_sub(output.planned.start)?;
            let end = at.checked_add(len_bytes)?;
            (end <= output.planned.end).then_some((output.memory, output.at.checked_add(offset)?))
        });
        let no_place = || {
            Error::Usage(format!(
                "{len_bytes} bytes at offset {at} of a plan's output have no place"
            ))
        };
        found.ok_or_else(no_place)
    }
}
