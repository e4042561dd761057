//! Fetches the parts of a file whose offsets its own bytes state. A small file is
//! fetched whole. Of a larger one, all blocks that are known to be missing are
//! requested at the same time.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::file_opener::FetchedRanges;
use crate::bytes::{index, part};
use crate::limits::{BLOCKS_LEN_BYTES, WALKED_WHOLE_BYTES};
use crate::{Error, Result};

/// The blocks of `BYTES` each that have been fetched after the head of a file,
/// which consists of whole blocks, and the ranges that are missing.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks<const BYTES: u64> {
    by_number: BTreeMap<u64, Vec<u8>>,
    needs: Vec<Range<u64>>,
}

impl<const BYTES: u64> Blocks<BYTES> {
    /// Returns the ranges that are missing.
    pub fn needs(&self) -> &[Range<u64>] {
        &self.needs
    }

    pub fn supply(
        &self,
        fetched: &mut FetchedRanges,
        offset_bytes: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let len_bytes = bytes.len() as u64;
        let mut needs = self.needs.iter();
        if !needs.any(|need| need.start == offset_bytes && need.end - need.start == len_bytes) {
            return Err(Error::invalid_input("these bytes were not requested"));
        }
        fetched.supply_window(offset_bytes, bytes);
        Ok(())
    }

    /// Keeps the bytes that were supplied last. Returns whether all ranges have
    /// been supplied.
    pub fn keep(&mut self, fetched: &FetchedRanges) -> bool {
        let (start, bytes) = fetched.window();
        if let Some(number) = self.needs.iter().position(|need| need.start == start) {
            self.needs.swap_remove(number);
            let blocks = bytes.chunks(index(BYTES)).map(<[u8]>::to_vec);
            self.by_number.extend((start / BYTES..).zip(blocks));
        }
        self.needs.is_empty()
    }

    /// Returns the bytes of `range`, if all of them have been fetched.
    pub fn have<'a>(&self, fetched: &'a FetchedRanges, range: Range<u64>) -> Option<Cow<'a, [u8]>> {
        let head = fetched.head();
        if range.end <= head.len() as u64 {
            return Some(part(head, range).into());
        }
        let mut joined = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (start, bytes) = match at < head.len() as u64 {
                true => (0, head),
                false => {
                    let number = at / BYTES;
                    (number * BYTES, &self.by_number.get(&number)?[..])
                }
            };
            let end = (start + bytes.len() as u64).min(range.end);
            if end <= at {
                return None;
            }
            joined.extend_from_slice(part(bytes, at - start..end - start));
            at = end;
        }
        Some(joined.into())
    }

    /// Requests the rest of a small file, or `needs`.
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) if more than [`BLOCKS_LEN_BYTES`] would
    /// be fetched.
    pub fn request(&mut self, fetched: &FetchedRanges, needs: Vec<Range<u64>>) -> Result<()> {
        let (len_bytes, head_bytes) = (fetched.len_bytes(), fetched.head().len() as u64);
        if len_bytes <= WALKED_WHOLE_BYTES {
            self.needs = core::iter::once(head_bytes..len_bytes).collect();
            return Ok(());
        }
        let known = self.by_number.len() as u64 * BYTES;
        let needs = needs
            .into_iter()
            .map(|need| need.start.max(head_bytes)..need.end);
        self.needs = needs.filter(|need| !need.is_empty()).collect();
        let more: u64 = self.needs.iter().map(|need| need.end - need.start).sum();
        match known.saturating_add(more) <= BLOCKS_LEN_BYTES {
            true => Ok(()),
            false => Err(Error::limit(format!(
                "the list of tensors needs more than {BLOCKS_LEN_BYTES} bytes of the file, the \
                 most that are read"
            ))),
        }
    }
}
