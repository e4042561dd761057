//! Fetches the parts of a file that a walk from front to back requires. A
//! small file is fetched whole. Of a larger one, a window is fetched at a time:
//! the walk skips long values, and the next window begins where it continues.

use alloc::format;
use core::ops::Range;

use super::file_opener::FetchedRanges;
use crate::container::foreign::{Walk, Window};
use crate::limits::{HEAD_LEN_BYTES, WALKED_WHOLE_BYTES};
use crate::{Error, Result};

/// The greatest length in bytes to which windows double.
const LONG_WINDOW_BYTES: u64 = 4 << 20;

/// After this many windows, the shortest window doubles, so that their number
/// is bounded for a file of any length.
const WINDOWS: u64 = 32;

/// The greatest number of windows of a file.
const MOST_WINDOWS: u64 = 1024;

/// A walk through a file, with the range that it continues with.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequential<W> {
    walk: W,
    next: Option<Range<u64>>,
    is_complete: bool,
    /// The number of windows that were requested.
    windows: u64,
    /// The length of the last window in bytes.
    window_bytes: u64,
}

impl<W: Walk> Sequential<W> {
    /// Returns the range that is missing.
    pub fn needs(&self) -> Option<Range<u64>> {
        self.next.clone()
    }

    /// Returns the completed walk.
    pub fn finish(self) -> Result<W> {
        match self.is_complete {
            true => Ok(self.walk),
            false => Err(Error::invalid_input(
                "not all requested ranges were supplied",
            )),
        }
    }

    pub fn supply(
        &self,
        fetched: &mut FetchedRanges,
        offset_bytes: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let is_wanted = self.next.as_ref().is_some_and(|range| {
            range.start == offset_bytes && range.end - range.start == bytes.len() as u64
        });
        if !is_wanted {
            return Err(Error::invalid_input("these bytes were not requested"));
        }
        match is_whole(fetched) {
            true => fetched.supply(offset_bytes, bytes)?,
            false => fetched.supply_window(offset_bytes, bytes),
        }
        Ok(())
    }

    /// Walks as far as the fetched bytes allow.
    pub fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        let before = self.next.take();
        loop {
            let window = window(fetched, self.walk.position());
            let Some(need) = self.walk.walk(&window)? else {
                self.is_complete = true;
                return Ok(());
            };
            // The walk may have moved from the head into the window.
            if !self::window(fetched, need.start).contains(&need) {
                let next = self.request(need, fetched);
                // A walk continues behind the bytes that it has been given.
                if self.windows > MOST_WINDOWS || before.as_ref() == Some(&next) {
                    return Err(Error::limit(format!(
                        "the tensors of the file are not found in {MOST_WINDOWS} windows of it"
                    )));
                }
                self.next = Some(next);
                return Ok(());
            }
        }
    }

    /// Returns the range to fetch next, which contains `need`.
    fn request(&mut self, need: Range<u64>, fetched: &FetchedRanges) -> Range<u64> {
        let (len_bytes, have) = (fetched.len_bytes(), fetched.head().len() as u64);
        if is_whole(fetched) {
            return have..len_bytes;
        }
        let shortest = HEAD_LEN_BYTES << (self.windows / WINDOWS).min(11);
        let (start, bytes) = fetched.around(need.start);
        let fetched_end = start.saturating_add(bytes.len() as u64);
        let skipped = need.start.saturating_sub(fetched_end);
        // A longer window would have contained the next field.
        let is_near = self.windows > 0 && skipped < self.window_bytes;
        let window_bytes = match is_near {
            true => self.window_bytes.saturating_mul(2).min(LONG_WINDOW_BYTES),
            false => self.window_bytes / 2,
        };
        self.window_bytes = window_bytes.max(shortest);
        self.windows += 1;
        let len = self.window_bytes.max(need.end - need.start);
        need.start..need.start.saturating_add(len).min(len_bytes)
    }
}

fn is_whole(fetched: &FetchedRanges) -> bool {
    fetched.len_bytes() <= WALKED_WHOLE_BYTES
}

/// Returns the fetched bytes around the offset `at` as a window.
fn window(fetched: &FetchedRanges, at: u64) -> Window<'_> {
    let (start, bytes) = fetched.around(at);
    Window::new(start, bytes, fetched.len_bytes())
}
