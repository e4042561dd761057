//! The operations of an accelerator that loading a model requires.

use std::ops::Range;

use zstn_core::frame::plan::DevicePlan;

use crate::{Damage, Result};

/// An accelerator with memory of its own.
pub trait Device: Sync {
    /// Memory of the device.
    type Memory: Send + Sync;
    /// A queue of work.
    type Queue: Queue<Memory = Self::Memory>;

    /// Allocates `len_bytes` bytes, which have no defined content. They can be read up
    /// to the next multiple of 16, and begin at a multiple of 16.
    ///
    /// # Errors
    /// The device does not have as much free memory.
    fn allocate(&self, len_bytes: u64) -> Result<Self::Memory>;

    /// Creates a queue whose buffer has `buffer_bytes` bytes.
    ///
    /// # Errors
    /// The driver refuses to.
    fn queue(&self, buffer_bytes: usize) -> Result<Self::Queue>;
}

/// Work that a device does in order. Queues of the same device work at the same time.
pub trait Queue {
    /// Memory of the device.
    type Memory;

    /// Returns the buffer on the host that copies are made from, after all copies from
    /// it have ended.
    ///
    /// # Errors
    /// Earlier work failed.
    fn buffer(&mut self) -> Result<&mut [u8]>;

    /// Starts to copy the bytes `part` of the buffer to the offset `at` of `to`.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) if a range lies outside its buffer.
    fn copy(&mut self, part: Range<usize>, to: &Self::Memory, at: u64) -> Result<()>;

    /// Decodes a plan, after all copies of this queue, and waits until the output is
    /// complete. `host` are the decoded bytes of the plan's host segments, in their
    /// order. The output has no defined content in tensors that are damaged. Other queues
    /// must not write to the source in the meantime.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) if a buffer is shorter than the plan requires, if
    /// `host` does not have the segments of the plan, or if memory belongs to another
    /// device.
    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Self::Memory,
        output: &Self::Memory,
    ) -> Result<Option<Damage>>;

    /// Waits until all work is done.
    ///
    /// # Errors
    /// Earlier work failed.
    fn wait(&mut self) -> Result<()>;
}
