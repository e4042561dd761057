//! Divides the tensors of a model into jobs of threads.

use std::ops::Range;

use zstn::Reader;
use zstn::zstn_core::catalog::FileKind;
use zstn::zstn_core::model::StoredPart;

use super::long_frame::LongFrame;
use super::{LoadOptions, Place};

/// The shortest part of a tensor or of a frame that gets a job of its own, in bytes.
const MIN_PART_BYTES: u64 = 2 << 20;
/// The most decoded bytes of a batch, as a multiple of the length of a buffer. It limits
/// the memory for planes.
const MAX_DECODED_BUFFERS: u64 = 4;

/// Work for one thread. A place is named by its index.
pub(super) enum Job {
    /// Bytes of a file that are bytes of a tensor.
    Copy {
        file: usize,
        stored: Range<u64>,
        place: usize,
        /// Offset of the first byte in the tensor.
        at: u64,
    },
    /// Packed tensors whose frames fit into a buffer together.
    Batch(Range<usize>),
    /// A part of a longer frame: its index in [`Jobs::long_frames`], and the index of the
    /// part.
    Part(usize, usize),
    /// A tensor that only the CPU decodes.
    Cpu(usize),
}

/// All work, in the order in which threads do it.
pub(super) struct Jobs<M> {
    pub jobs: Vec<Job>,
    pub long_frames: Vec<LongFrame<M>>,
}

/// Returns the only part of a tensor that is stored as a frame of a ZSTN file.
pub(super) fn frame(reader: &Reader, number: usize) -> Option<&StoredPart> {
    let tensor = reader.tensors().get(number)?;
    match &tensor.parts[..] {
        [part] if tensor.base.is_none() && tensor.weight().is_none() => {
            let file = reader.model().files().get(part.file)?;
            (file.kind() == FileKind::Zstn).then_some(part)
        }
        _ => None,
    }
}

/// Divides the work on `places`. Parts of long frames come first, because each of these
/// frames is decoded when the last of its parts has arrived.
pub(super) fn divide<M>(
    reader: &Reader,
    places: &[Place<'_, M>],
    options: &LoadOptions,
) -> Jobs<M> {
    let buffer_bytes = options.buffer_bytes as u64;
    let part_bytes = |len_bytes: u64| {
        let share = len_bytes.div_ceil(options.threads as u64);
        share.max(MIN_PART_BYTES).min(buffer_bytes)
    };
    let (mut jobs, mut first) = (Vec::new(), Vec::new());
    let mut long_frames = Vec::new();
    let mut batch = Batching::default();
    for (index, place) in places.iter().enumerate() {
        if let Some(part) = frame(reader, place.number) {
            let len_bytes = part.len_bytes();
            if len_bytes > buffer_bytes {
                let frame = LongFrame::new(index, len_bytes, part_bytes(len_bytes));
                first.extend((0..frame.parts()).map(|part| Job::Part(long_frames.len(), part)));
                long_frames.push(frame);
                continue;
            }
            let limits = [
                buffer_bytes,
                MAX_DECODED_BUFFERS.saturating_mul(buffer_bytes),
            ];
            jobs.extend(batch.add(index, [len_bytes, place.len_bytes()], limits));
        } else if let Some(part) = reader.model().plain_part(place.number) {
            let (stored, step) = (part.stored.clone(), part_bytes(part.len_bytes()));
            let mut start = stored.start;
            while start < stored.end {
                let end = stored.end.min(start.saturating_add(step));
                jobs.push(Job::Copy {
                    file: part.file,
                    stored: start..end,
                    place: index,
                    at: start - stored.start,
                });
                start = end;
            }
        } else {
            jobs.push(Job::Cpu(index));
        }
    }
    jobs.extend(batch.finish());
    first.extend(jobs);
    Jobs {
        jobs: first,
        long_frames,
    }
}

/// Consecutive packed tensors that wait for more.
#[derive(Default)]
struct Batching {
    places: Range<usize>,
    stored_bytes: u64,
    decoded_bytes: u64,
}

impl Batching {
    /// Adds a tensor with these numbers of stored and decoded bytes. Returns the batch
    /// before it if that is complete.
    fn add(
        &mut self,
        place: usize,
        [stored_bytes, decoded_bytes]: [u64; 2],
        [most_stored, most_decoded]: [u64; 2],
    ) -> Option<Job> {
        let stored = self.stored_bytes.saturating_add(stored_bytes);
        let decoded = self.decoded_bytes.saturating_add(decoded_bytes);
        let is_next = self.places.end == place;
        let complete = match is_next && stored <= most_stored && decoded <= most_decoded {
            true => None,
            false => {
                let complete = self.finish();
                self.places = place..place;
                complete
            }
        };
        self.places.end = place + 1;
        self.stored_bytes += stored_bytes;
        self.decoded_bytes = self.decoded_bytes.saturating_add(decoded_bytes);
        complete
    }

    fn finish(&mut self) -> Option<Job> {
        let Self { places, .. } = std::mem::take(self);
        (!places.is_empty()).then_some(Job::Batch(places))
    }
}
