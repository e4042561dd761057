//! Large buffers for the bytes of tensors, whose memory is used again. The system clears
//! every page of new memory, so new buffers for each tensor would take a tenth of the time
//! of verifying a model.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstn_core::Result;

/// The minimum length, in bytes, of a buffer whose memory is used again. The memory of
/// shorter buffers is retained by the system's allocator.
const MIN_BYTES: u64 = 1 << 20;

/// A pool of memory for buffers; clones share it.
///
/// The memory in use and the unused memory together never exceed the largest amount of
/// memory that has been in use at the same time. A pool therefore does not increase the
/// peak memory of a job.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Pool>>);

#[derive(Default)]
struct Pool {
    /// Memory that is not in use, the most recently used at the end.
    unused: Vec<Vec<u8>>,
    used_bytes: usize,
    max_used_bytes: usize,
}

/// Bytes in memory that is borrowed, that is owned, or that returns to its pool when the
/// buffer is dropped.
pub(crate) struct Buffer<'a> {
    /// At least `len` bytes.
    memory: Cow<'a, [u8]>,
    len: usize,
    pool: Option<Buffers>,
}

impl Buffers {
    /// Returns a buffer of `len_bytes`, which contains zeros or the bytes of an earlier
    /// buffer. The caller must have checked that the input justifies the length.
    ///
    /// # Errors
    /// [`Limit`](zstn_core::ErrorKind::Limit) if the memory is too small.
    pub(crate) fn take(&self, len_bytes: u64) -> Result<Buffer<'static>> {
        if len_bytes >= MIN_BYTES
            && let Some(memory) = self.pool().take(len_bytes)
        {
            return Ok(Buffer {
                memory: Cow::Owned(memory),
                len: zstn_core::bytes::index(len_bytes),
                pool: Some(self.clone()),
            });
        }
        zstn_core::bytes::buffer(len_bytes).map(Buffer::from)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Returns `None` if there is not enough memory.
    fn take(&mut self, len_bytes: u64) -> Option<Vec<u8>> {
        // Stored tensors of the same shape differ by a few bytes in length, so lengths
        // are rounded up, by at most an eighth.
        let step = 1 << (len_bytes.ilog2() - 3);
        let len_bytes = len_bytes.checked_next_multiple_of(step)?;
        let len = usize::try_from(len_bytes).ok()?;
        let used_bytes = self.used_bytes.checked_add(len)?;
        let max_used_bytes = self.max_used_bytes.max(used_bytes);
        let same = self.unused.iter().rposition(|memory| memory.len() == len);
        let memory = if let Some(same) = same {
            self.unused.remove(same)
        } else {
            let mut excess = (used_bytes + self.unused.iter().map(Vec::len).sum::<usize>())
                .saturating_sub(max_used_bytes);
            while excess > 0 {
                excess = excess.saturating_sub(self.unused.remove(0).len());
            }
            let memory = zstn_core::bytes::buffer(len_bytes);
            memory.inspect_err(|_| self.unused.clear()).ok()?
        };
        (self.used_bytes, self.max_used_bytes) = (used_bytes, max_used_bytes);
        Some(memory)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let (Some(pool), Cow::Owned(memory)) = (&self.pool, &mut self.memory) {
            let memory = std::mem::take(memory);
            let mut pool = pool.pool();
            pool.used_bytes -= memory.len();
            pool.unused.push(memory);
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// A borrowed buffer is copied when it is changed.
impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.to_mut()[..self.len]
    }
}

impl<'a> From<Cow<'a, [u8]>> for Buffer<'a> {
    fn from(memory: Cow<'a, [u8]>) -> Self {
        Self {
            len: memory.len(),
            memory,
            pool: None,
        }
    }
}

impl From<Vec<u8>> for Buffer<'_> {
    fn from(memory: Vec<u8>) -> Self {
        Cow::<[u8]>::Owned(memory).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn unused(buffers: &Buffers) -> Vec<u64> {
        let pool = buffers.pool();
        let lens = pool.unused.iter().map(|memory| memory.len() as u64);
        lens.map(|len| len / MIB).collect()
    }

    #[test]
    fn memory_is_used_again_for_buffers_of_nearly_the_same_length() {
        let buffers = Buffers::default();
        let mut first = buffers.take(31 * MIB).unwrap();
        first[0] = 1;
        let start = first.as_ptr();
        drop(first);
        let second = buffers.take(31 * MIB - 1000).unwrap();
        assert_eq!(second.len() as u64, 31 * MIB - 1000);
        assert_eq!((second.as_ptr(), second[0]), (start, 1));
    }

    #[test]
    fn unused_memory_never_increases_the_peak() {
        let buffers = Buffers::default();
        let take = |mib| buffers.take(mib * MIB).unwrap();
        drop((take(8), take(4)));
        assert_eq!(unused(&buffers), [8, 4]);
        // 12 MiB have been in use, so 3 MiB more have to be released: the oldest.
        drop(take(3));
        assert_eq!(unused(&buffers), [4, 3]);
        let large = take(64);
        assert_eq!(unused(&buffers), [0; 0]);
        drop(large);
        assert_eq!(unused(&buffers), [64]);
    }

    #[test]
    fn impossible_lengths_are_errors() {
        let buffers = Buffers::default();
        drop(buffers.take(2 * MIB).unwrap());
        assert!(buffers.take(u64::MAX).is_err());
        assert!(buffers.take(1 << 60).is_err());
        assert_eq!(buffers.pool().used_bytes, 0);
    }
}
