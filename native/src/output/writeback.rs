//! Begins to write a file to the disk while the rest of it is still being computed, so that
//! the final flush finds little left to do.

use std::fs::File;

/// The number of appended bytes after which writing to the disk begins, and the minimum
/// length of other writes for which it does. Shorter requests would cost more time than
/// they gain.
const APPENDED_BYTES: u64 = 4 << 20;
const MIN_BYTES: u64 = 256 << 10;

/// The bytes that have been appended to a file and that the system has not been asked to
/// write to the disk.
#[derive(Default)]
pub(super) struct EarlyWriteback {
    start: u64,
    end: u64,
}

impl EarlyWriteback {
    /// Records that `len_bytes` bytes were appended to `file`.
    pub(super) fn appended(&mut self, file: &File, len_bytes: u64) {
        self.end += len_bytes;
        if self.end - self.start >= APPENDED_BYTES {
            begin(file, self.start, self.end - self.start);
            self.start = self.end;
        }
    }

    /// Records that the next bytes will be appended at `offset_bytes`.
    pub(super) fn moved_to(&mut self, offset_bytes: u64) {
        (self.start, self.end) = (offset_bytes, offset_bytes);
    }

    /// Records that `len_bytes` bytes were written to `file` at `offset_bytes`.
    pub(super) fn written_at(file: &File, offset_bytes: u64, len_bytes: u64) {
        if len_bytes >= MIN_BYTES {
            begin(file, offset_bytes, len_bytes);
        }
    }
}

/// Asks the system to begin to write a range to the disk, by the advice that the range is
/// no longer needed. The system then also drops pages from its cache, but only pages that
/// are already on the disk. The pages of the range are not, because they are new.
#[cfg(target_os = "linux")]
fn begin(file: &File, start: u64, len_bytes: u64) {
    use rustix::fs::{Advice, fadvise};
    let len_bytes = std::num::NonZeroU64::new(len_bytes);
    // Failed advice has no effect on the result.
    let _ = fadvise(file, start, len_bytes, Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn begin(_: &File, _: u64, _: u64) {}
