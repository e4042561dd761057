//! Reads a remote file ahead of its use, in bounded memory.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::Source;
use crate::{Error, Result};

/// The maximum length of one read, in bytes, and the number of simultaneous reads.
const CHUNK_BYTES: u64 = 4 << 20;
const READS: usize = 4;
/// The maximum number of chunks that are fetched ahead. They are listed before any of
/// their lengths has been compared with bytes that have arrived.
const MAX_CHUNKS: usize = 1 << 18;

/// A remote file whose ranges are fetched before they are read, once their order is
/// known ([`ReadAhead::begin`]). Other ranges are fetched when they are read.
pub(super) struct ReadAhead {
    /// The first bytes of the file.
    head: Vec<u8>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    source: Arc<dyn Source>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The chunks to be fetched, in the order in which they will be read.
    chunks: Vec<Chunk>,
    /// The numbers of the chunks, by the offset of their first byte.
    by_start: BTreeMap<u64, usize>,
    /// The number of chunks that may be fetched: their memory is counted.
    allowed: usize,
    /// The number of chunks that a thread has taken to fetch them.
    taken: usize,
    /// The total length of all chunks that may be fetched and have not been read.
    held_bytes: u64,
    max_bytes: u64,
    /// True if no more chunks will be fetched.
    is_ended: bool,
}

struct Chunk {
    range: Range<u64>,
    content: Content,
}

enum Content {
    /// The chunk has not been taken by a thread.
    Waiting,
    Arriving,
    Arrived {
        bytes: Arc<Vec<u8>>,
        unread_bytes: u64,
    },
    /// The chunk could not be fetched. The first thread that reads it gets the error.
    Failed(Error),
    /// The chunk has been read, or it is fetched by the threads that read it.
    Done,
}

/// Where to find the bytes of a range.
enum Found {
    /// The bytes from `offset` in a chunk.
    Chunk {
        number: usize,
        bytes: Arc<Vec<u8>>,
        offset: usize,
    },
    Source,
}

impl ReadAhead {
    /// Uses `source`, whose first bytes are `head`.
    pub(super) fn new(source: Arc<dyn Source>, head: Vec<u8>) -> Self {
        let shared = Shared {
            source,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            head,
            shared: Arc::new(shared),
            threads: Mutex::default(),
        }
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.shared.source
    }

    /// Begins to fetch `ranges`, which do not overlap and will be read once each, in
    /// about this order. The bytes that have been fetched and not read take at most
    /// `max_bytes`, or one chunk. Only the first call has an effect.
    pub(super) fn begin(&self, ranges: impl Iterator<Item = Range<u64>>, max_bytes: u64) {
        let mut state = self.shared.state();
        if state.is_ended || !state.chunks.is_empty() {
            return;
        }
        let head_end = self.head.len() as u64;
        state.chunks = chunks(ranges.map(|range| range.start.max(head_end)..range.end));
        let starts = state.chunks.iter().map(|chunk| chunk.range.start);
        state.by_start = starts.zip(0..).collect();
        state.max_bytes = max_bytes;
        state.allow();
        let count = READS.min(state.chunks.len());
        drop(state);
        let begun = (0..count).map_while(|_| {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("zstn-read-ahead".into());
            builder.spawn(move || shared.run()).ok()
        });
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.extend(begun);
        // If the system refuses threads, every range is fetched when it is read.
        if threads.is_empty() {
            self.shared.state().is_ended = true;
        }
    }

    /// Fills `out` with the bytes from the offset `start`.
    ///
    /// # Errors
    /// The errors of the source.
    pub(super) fn read_into(&self, mut start: u64, mut out: &mut [u8]) -> Result<()> {
        let in_head = self
            .head
            .get(usize::try_from(start).unwrap_or(usize::MAX)..);
        if let Some(head) = in_head {
            let len = head.len().min(out.len());
            let (first, rest) = out.split_at_mut(len);
            first.copy_from_slice(&head[..len]);
            start += len as u64;
            out = rest;
        }
        while !out.is_empty() {
            let (found, len) = self.shared.find(start, out.len())?;
            let (piece, rest) = out.split_at_mut(len);
            match found {
                Found::Source => self.source().read_into(start, piece)?,
                Found::Chunk {
                    number,
                    bytes,
                    offset,
                } => {
                    piece.copy_from_slice(&bytes[offset..offset + len]);
                    drop(bytes);
                    self.shared.state().release(number, len as u64);
                    self.shared.changed.notify_all();
                }
            }
            start += len as u64;
            out = rest;
        }
        Ok(())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.state().is_ended = true;
        self.shared.changed.notify_all();
        // The source may belong to the caller, so nothing reads it afterwards.
        let threads = self
            .threads
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Joins adjacent ranges, and divides the result into chunks, at most [`MAX_CHUNKS`].
fn chunks(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for mut range in ranges {
        if let Some(Chunk { range: last, .. }) = chunks.last_mut()
            && last.end == range.start
        {
            last.end = range.end.min(last.start + CHUNK_BYTES);
            range.start = last.end;
        }
        while !range.is_empty() && chunks.len() < MAX_CHUNKS {
            let end = range.end.min(range.start + CHUNK_BYTES);
            chunks.push(Chunk {
                range: range.start..end,
                content: Content::Waiting,
            });
            range.start = end;
        }
    }
    chunks
}

impl Shared {
    /// Fetches chunks until there are no more, on a thread of its own.
    fn run(&self) {
        while let Some((number, range)) = self.next() {
            // If the source panics, nothing must wait for the chunk.
            let _done = DoneOnDrop(self, number);
            let read = self.source.read(range).map(std::borrow::Cow::into_owned);
            let mut state = self.state();
            let chunk = &mut state.chunks[number];
            match read {
                Ok(bytes) if bytes.len() as u64 == chunk.range.end - chunk.range.start => {
                    chunk.content = Content::Arrived {
                        unread_bytes: bytes.len() as u64,
                        bytes: Arc::new(bytes),
                    };
                }
                // The thread that needs the bytes reads them again.
                Ok(_) => state.is_ended = true,
                Err(error) => {
                    chunk.content = Content::Failed(error);
                    state.is_ended = true;
                }
            }
        }
    }

    /// Waits for a chunk that may be fetched, and takes it.
    fn next(&self) -> Option<(usize, Range<u64>)> {
        let mut state = self.state();
        loop {
            if state.is_ended || state.taken == state.chunks.len() {
                return None;
            }
            if state.taken == state.allowed {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let number = state.taken;
            state.taken += 1;
            let chunk = &mut state.chunks[number];
            if let Content::Waiting = chunk.content {
                chunk.content = Content::Arriving;
                return Some((number, chunk.range.clone()));
            }
        }
    }

    /// Returns where the bytes from the offset `start` are, and how many of the next
    /// `len` bytes are at that place. If a chunk is being fetched, this waits for it.
    fn find(&self, start: u64, len: usize) -> Result<(Found, usize)> {
        let mut state = self.state();
        let up_to = |end: u64| usize::try_from(end - start).map_or(len, |to| to.min(len));
        let before = state.by_start.range(..=start).next_back();
        let covering = before.map(|(_, &number)| number);
        let covering = covering.filter(|&number| start < state.chunks[number].range.end);
        let Some(number) = covering else {
            let after = state.by_start.range(start..).next();
            let len = after.map_or(len, |(&end, _)| up_to(end));
            return Ok((Found::Source, len));
        };
        loop {
            let is_allowed = number < state.allowed && !state.is_ended;
            let chunk = &mut state.chunks[number];
            let here = up_to(chunk.range.end);
            match &chunk.content {
                Content::Arrived { bytes, .. } => {
                    let found = Found::Chunk {
                        number,
                        bytes: Arc::clone(bytes),
                        offset: zstn_core::bytes::index(start - chunk.range.start),
                    };
                    return Ok((found, here));
                }
                Content::Failed(_) => {
                    if let Content::Failed(error) = mem::replace(&mut chunk.content, Content::Done)
                    {
                        return Err(error);
                    }
                }
                Content::Done => return Ok((Found::Source, up_to(state.end_of_done(number)))),
                Content::Waiting if !is_allowed => {
                    // Other threads read the chunks before this one.
                    chunk.content = Content::Done;
                    return Ok((Found::Source, here));
                }
                Content::Waiting | Content::Arriving => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Allows threads to fetch as many chunks as there is memory for.
    fn allow(&mut self) {
        while let Some(chunk) = self.chunks.get(self.allowed) {
            if let Content::Waiting = chunk.content {
                let len_bytes = chunk.range.end - chunk.range.start;
                let held_bytes = self.held_bytes + len_bytes;
                if self.held_bytes > 0 && held_bytes > self.max_bytes {
                    return;
                }
                self.held_bytes = held_bytes;
            }
            self.allowed += 1;
        }
    }

    /// Returns the end of the adjacent chunks from `number` on that are not fetched ahead.
    fn end_of_done(&self, number: usize) -> u64 {
        let chunks = self.chunks[number..].iter();
        let done = chunks.take_while(|chunk| matches!(chunk.content, Content::Done));
        let mut end = self.chunks[number].range.start;
        for chunk in done {
            if chunk.range.start != end {
                break;
            }
            end = chunk.range.end;
        }
        end
    }

    /// Records that `len_bytes` bytes of a chunk have been read.
    fn release(&mut self, number: usize, len_bytes: u64) {
        let chunk = &mut self.chunks[number];
        if let Content::Arrived { unread_bytes, .. } = &mut chunk.content {
            *unread_bytes = unread_bytes.saturating_sub(len_bytes);
            if *unread_bytes == 0 {
                self.end_chunk(number);
            }
        }
    }

    /// Frees a chunk whose memory is counted.
    fn end_chunk(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        chunk.content = Content::Done;
        self.held_bytes -= chunk.range.end - chunk.range.start;
        self.allow();
    }
}

/// When it is dropped, ends a chunk that has not arrived, and wakes all waiting threads.
struct DoneOnDrop<'a>(&'a Shared, usize);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        let Self(shared, number) = *self;
        let mut state = shared.state();
        if let Content::Arriving = state.chunks[number].content {
            state.is_ended = true;
            state.end_chunk(number);
        }
        drop(state);
        shared.changed.notify_all();
    }
}

impl std::fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadAhead")
            .field("name", &self.source().name())
            .finish_non_exhaustive()
    }
}
