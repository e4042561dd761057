//! Reads ranges of tensors, and caches decoded tensors for further ranges.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use zstn_core::bytes::index;
use zstn_core::limits::SPARSE_BYTES_PER_BYTE;
use zstn_core::model::TensorInfo;

use crate::{Error, Reader, Result};

/// Reads ranges of the tensors of one model, which are identified by number.
///
/// If the file stores rows separately, only the requested rows are decoded. A tensor
/// that can only be decoded as a whole is cached for the next range of it, and so is a
/// tensor that is read from start to end in several ranges. The cached tensors take up
/// to `limit_bytes` in total, or the length of the largest one if that is more.
pub(super) struct DecodedTensors {
    limit_bytes: u64,
    is_listing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: HashMap<usize, Kept>,
    uses: u64,
    /// The end of the last range that was read of each tensor.
    ends: HashMap<usize, u64>,
}

struct Kept {
    bytes: Slot,
    len_bytes: u64,
    last_use: u64,
}

/// The bytes of a tensor, once a thread has decoded it. Other threads that need the
/// same tensor wait for that thread, unless they belong to an engine.
type Slot = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

impl DecodedTensors {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            is_listing: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Sets whether a tensor is refused that has to be decoded as a whole, is larger than
    /// the cache, and has more bytes than its stored bytes justify.
    pub(super) fn set_listing(&self, is_listing: bool) {
        self.is_listing.store(is_listing, Relaxed);
    }

    fn check_earned(&self, reader: &Reader, tensor: &TensorInfo) -> Result<()> {
        let len_bytes = tensor.len_bytes();
        let stored = tensor.stored_len_bytes();
        let earned = stored.saturating_mul(SPARSE_BYTES_PER_BYTE);
        let is_checked = self.is_listing.load(Relaxed) && tensor.base.is_none();
        if !is_checked || len_bytes <= earned.max(self.limit_bytes) {
            return Ok(());
        }
        let detail = format!(
            "{len_bytes} bytes would be decoded from {stored} stored ones to list the tensors of \
             the restored file: restore that file with `zstn unpack`, and open it"
        );
        let refusal = zstn_core::Error::limit(detail).tensor(&tensor.name);
        Err(Error::place(reader.name())(refusal))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the bytes `range` of tensor `number` into `out`, which must have the same
    /// length.
    pub(super) fn read(
        &self,
        reader: &Reader,
        number: usize,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let tensor = reader
            .model()
            .tensor(number)
            .map_err(Error::place(reader.name()))?;
        let len_bytes = tensor.len_bytes();
        if range.start > range.end || range.end > len_bytes {
            let detail = format!("bytes {range:?} of a tensor of {len_bytes} bytes");
            let refusal = zstn_core::Error::invalid_input(detail).tensor(&tensor.name);
            return Err(Error::place(reader.name())(refusal));
        }
        if out.is_empty() {
            return Ok(());
        }
        let (goes_on, kept) = self.lock().begin(number, &range);
        let is_last = range.end == len_bytes;
        let slot = match kept {
            Some(slot) => slot,
            None if range == (0..len_bytes) => return reader.read_into(&tensor.name, out),
            None if read_plain(reader, number, &range, out)? => return Ok(()),
            // If this is the last range of the tensor, it is not worth decoding more
            // than the rows that contain it. The rows of a delta take several reads
            // each, so its tensor is decoded as a whole and cached instead.
            None if tensor.base.is_none()
                && (!goes_on || is_last)
                && read_rows(reader, tensor, &range, out)? =>
            {
                return Ok(());
            }
            None => {
                self.check_earned(reader, tensor)?;
                self.lock().keep(number, len_bytes, self.limit_bytes)
            }
        };
        let bytes =
            decode(&slot, reader, &tensor.name).inspect_err(|_| self.forget(number, &slot))?;
        let part = bytes.get(index(range.start)..index(range.end));
        let part = part.filter(|part| part.len() == out.len());
        let part = part.ok_or_else(|| {
            Error::Usage(format!("tensor `{}` is shorter than expected", tensor.name))
        })?;
        out.copy_from_slice(part);
        if goes_on && is_last {
            self.forget(number, &slot);
        }
        Ok(())
    }

    /// Removes a tensor from the cache, unless its slot has been replaced.
    fn forget(&self, number: usize, slot: &Slot) {
        let mut state = self.lock();
        if let Some(kept) = state.kept.get(&number)
            && Arc::ptr_eq(&kept.bytes, slot)
        {
            state.kept.remove(&number);
        }
    }
}

impl State {
    /// Returns whether `range` begins where the last range of the tensor ended, and the
    /// slot of the tensor if it is cached.
    fn begin(&mut self, number: usize, range: &Range<u64>) -> (bool, Option<Slot>) {
        let last_end = self.ends.insert(number, range.end);
        self.uses += 1;
        let kept = self.kept.get_mut(&number).map(|kept| {
            kept.last_use = self.uses;
            Arc::clone(&kept.bytes)
        });
        (range.start > 0 && last_end == Some(range.start), kept)
    }

    /// Adds a tensor to the cache and evicts the least recently used tensors to make
    /// room.
    fn keep(&mut self, number: usize, len_bytes: u64, limit_bytes: u64) -> Slot {
        let lens = self.kept.values().map(|kept| kept.len_bytes);
        let mut total = lens.fold(len_bytes, u64::saturating_add);
        while total > limit_bytes
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.last_use)
        {
            let number = *oldest.0;
            total -= oldest.1.len_bytes;
            self.kept.remove(&number);
        }
        let last_use = self.uses;
        // Another thread may have added the tensor meanwhile.
        let kept = self.kept.entry(number).or_insert_with(|| Kept {
            bytes: Slot::default(),
            len_bytes,
            last_use,
        });
        Arc::clone(&kept.bytes)
    }
}

/// Returns the decoded tensor of a slot. A thread of an engine does not wait for another
/// thread that decodes it, because that one may wait for work of the first. It decodes
/// the tensor itself instead.
fn decode(slot: &Slot, reader: &Reader, name: &str) -> Result<Arc<Vec<u8>>> {
    let read = || Ok(Arc::new(reader.read(name)?.bytes));
    let mut bytes = match slot.try_lock() {
        Ok(bytes) => bytes,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) if rayon::current_thread_index().is_some() => return read(),
        Err(TryLockError::WouldBlock) => slot.lock().unwrap_or_else(PoisonError::into_inner),
    };
    if let Some(bytes) = &*bytes {
        return Ok(Arc::clone(bytes));
    }
    let decoded = read()?;
    *bytes = Some(Arc::clone(&decoded));
    Ok(decoded)
}

/// Reads exactly `range` of a tensor that is stored plain. Returns false without
/// reading if it is not.
fn read_plain(reader: &Reader, number: usize, range: &Range<u64>, out: &mut [u8]) -> Result<bool> {
    let Some(part) = reader.model().plain_part(number) else {
        return Ok(false);
    };
    let Some(source) = reader.sources().get(part.file) else {
        return Ok(false);
    };
    source.read_into(part.stored.start + range.start, out)?;
    source.check_unchanged()?;
    Ok(true)
}

/// Reads the rows that contain `range`. Returns false without reading if the tensor
/// cannot be read by rows.
fn read_rows(
    reader: &Reader,
    tensor: &TensorInfo,
    range: &Range<u64>,
    out: &mut [u8],
) -> Result<bool> {
    let Some(&count) = tensor.shape.first().filter(|count| **count > 0) else {
        return Ok(false);
    };
    let len_bytes = tensor.len_bytes();
    if !len_bytes.is_multiple_of(count) || len_bytes == 0 {
        return Ok(false);
    }
    let row_bytes = len_bytes / count;
    let rows = range.start / row_bytes..range.end.div_ceil(row_bytes);
    let rows = reader.plan_rows(&tensor.name, rows)?;
    if rows.is_whole() {
        return Ok(false);
    }
    let start = index(range.start - rows.span().start);
    let read = reader.read_planned(&rows)?;
    match read.bytes.get(start..start + out.len()) {
        Some(part) => out.copy_from_slice(part),
        None => {
            return Err(Error::Usage(format!(
                "tensor `{}` is shorter than expected",
                tensor.name
            )));
        }
    }
    Ok(true)
}
