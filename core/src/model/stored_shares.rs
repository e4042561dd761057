//! The stored bytes that the tensors of a restored file take in the packed file.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Model, TensorInfo, Unpacked};
use crate::Result;
use crate::catalog::BaseUse;

impl Model {
    /// Sets [`TensorInfo::stored_share_bytes`] and [`TensorInfo::base_use`] of all tensors
    /// in file `number` of this model, which `packed` restores. The tensors of `packed` fill
    /// that file ([`FileCatalog::entries`](crate::catalog::FileCatalog::entries)). A tensor that
    /// covers a part of an entry takes the same part of the entry's stored bytes, and
    /// an entry that shares its bytes with another one takes none.
    ///
    /// # Errors
    /// An entry of `packed` that cannot be read.
    pub fn take_stored_shares(&mut self, number: usize, packed: &Self) -> Result<()> {
        let records = Records::of(packed.unpacked()?, &packed.tensors);
        for tensor in &mut self.tensors {
            let part = tensor.only_part().filter(|part| part.file == number);
            let Some(range) = part.map(|part| part.stored.clone()) else {
                continue;
            };
            tensor.stored_share_bytes = Some(records.stored_bytes(&range));
            tensor.record_base = records.base_use(&range);
        }
        Ok(())
    }
}

/// The entries of a packed file in the order of the restored file, with running totals.
/// A range that covers many entries then costs no more than one that covers few.
struct Records {
    layout: Unpacked,
    /// The totals of the entries before each one, and of all entries.
    before: Vec<Totals>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    stored_bytes: u64,
    copied: usize,
    differing: usize,
}

impl Records {
    fn of(layout: Unpacked, entries: &[TensorInfo]) -> Self {
        let mut total = Totals::default();
        let mut before = Vec::from([total]);
        before.extend(layout.order().iter().map(|&number| {
            if let Some(entry) = entries.get(number) {
                if entry.alias_of.is_none() {
                    let stored_bytes = entry.stored_len_bytes();
                    total.stored_bytes = total.stored_bytes.saturating_add(stored_bytes);
                }
                total.copied += usize::from(entry.base == Some(BaseUse::Copy));
                total.differing += usize::from(entry.base == Some(BaseUse::Delta));
            }
            total
        }));
        Self { layout, before }
    }

    /// Returns the totals of the first `count` entries.
    fn totals(&self, count: usize) -> Totals {
        self.before.get(count).copied().unwrap_or_default()
    }

    /// Returns the number of stored bytes of a range of the restored file.
    fn stored_bytes(&self, range: &Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let start = self.stored_before(range.start, |share, len| share / len);
        let end = self.stored_before(range.end, u128::div_ceil);
        end.saturating_sub(start)
    }

    /// Returns the number of stored bytes before an offset in the restored file. `divide`
    /// rounds the part of the entry that contains the offset.
    fn stored_before(&self, offset_bytes: u64, divide: fn(u128, u128) -> u128) -> u64 {
        let entry = self.layout.entry_at(offset_bytes);
        let [before, after] = [entry, entry + 1].map(|count| self.totals(count).stored_bytes);
        let span = self.layout.entry_span(entry);
        if span.is_empty() {
            return before;
        }
        let stored = u128::from(after.saturating_sub(before));
        let inside = u128::from(offset_bytes.saturating_sub(span.start));
        let share = divide(stored * inside, u128::from(span.end - span.start));
        before.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// Returns how the entries that hold a range of the restored file use the base.
    fn base_use(&self, range: &Range<u64>) -> Option<BaseUse> {
        let last = range.end.checked_sub(1).filter(|_| !range.is_empty())?;
        let (first, end) = (
            self.layout.entry_at(range.start),
            self.layout.entry_at(last) + 1,
        );
        let [before, after] = [first, end].map(|count| self.totals(count));
        let copied = after.copied.saturating_sub(before.copied);
        let differing = after.differing.saturating_sub(before.differing);
        match (copied, differing) {
            (0, 0) => None,
            (copied, _) if copied == end - first => Some(BaseUse::Copy),
            _ => Some(BaseUse::Delta),
        }
    }
}
