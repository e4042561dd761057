//! Divides the tensors of a model into jobs of threads.

use std::mem;
use std::ops::Range;

use zstn::Reader;
use zstn::source::Source;
use zstn::zstn_core::model::StoredPart;

use super::long_frame::LongFrame;
use super::{LoadOptions, Place};

/// The shortest part of a tensor or of a frame that gets a job of its own, in bytes.
const MIN_PART_BYTES: u64 = 2 << 20;
/// The most decoded bytes of a batch, as a multiple of the length of a buffer. It limits
/// the memory for planes.
const MAX_DECODED_BUFFERS: u64 = 4;
/// The most bytes between two tensors that are read together.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// Work for one thread. A place is named by its index.
pub(super) enum Job {
    /// Bytes of a file that are copied into tensors.
    Copy(Copies),
    /// Packed tensors whose frames fit into a buffer together.
    Batch(Range<usize>),
    /// A part of a longer frame: its index in [`Jobs::long_frames`], and the index of the
    /// part.
    Part(usize, usize),
    /// Tensors that only the CPU decodes. There are several of them if they are on a
    /// server, and then they fit into a buffer together.
    Cpu(Range<usize>),
}

/// Bytes of a file that are read together, and their places in tensors.
pub(super) struct Copies {
    pub file: usize,
    pub stored: Range<u64>,
    pub pieces: Vec<Piece>,
}

/// Bytes of a file that are bytes of a tensor.
pub(super) struct Piece {
    pub stored: Range<u64>,
    pub place: usize,
    /// Offset of the first byte in the tensor.
    pub at: u64,
}

/// All work, in the order in which threads do it.
pub(super) struct Jobs<M> {
    pub jobs: Vec<Job>,
    pub long_frames: Vec<LongFrame<M>>,
}

/// Returns the only part of a tensor that a plan may contain: a frame of a ZSTN file, or a
/// record of a delta whose base has a tensor of the same name and length. If the base has
/// several files, its tensor may be in another file than the one that the delta fits.
pub(super) fn frame(reader: &Reader, number: usize) -> Option<&StoredPart> {
    let tensor = reader.tensors().get(number)?;
    let len_in_base = || Some(reader.base()?.find(&tensor.name).ok()?.len_bytes());
    let has_base = tensor.base.is_none() || len_in_base() == Some(tensor.len_bytes());
    match &tensor.parts[..] {
        [part] if has_base && tensor.weight().is_none() => {
            let file = reader.model().files().get(part.file)?;
            file.may_be_planned(part.number).then_some(part)
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
    let threads = options.threads_for(reader) as u64;
    let part_bytes = |len_bytes: u64| {
        let share = len_bytes.div_ceil(threads);
        share.max(MIN_PART_BYTES).min(buffer_bytes)
    };
    let (mut jobs, mut first) = (Vec::new(), Vec::new());
    let mut long_frames = Vec::new();
    let mut batch = Batching::default();
    let plain = places.iter().filter_map(|place| {
        let part = reader.model().plain_part(place.number)?;
        Some(part.len_bytes())
    });
    let mut copying = Copying {
        most_bytes: part_bytes(plain.fold(0, u64::saturating_add)),
        copies: None,
    };
    let is_remote = reader.all_sources().any(Source::is_remote);
    let mut by_cpu = Batching::default();
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
            let complete = batch.add(index, [len_bytes, place.len_bytes()], limits);
            jobs.extend(complete.map(Job::Batch));
        } else if let Some(part) = reader.model().plain_part(place.number) {
            copying.add(index, part, &mut jobs);
        } else {
            let most_bytes = if is_remote { buffer_bytes } else { 0 };
            let complete = by_cpu.add(index, [0, place.len_bytes()], [0, most_bytes]);
            jobs.extend(complete.map(Job::Cpu));
        }
    }
    jobs.extend(copying.copies.map(Job::Copy));
    jobs.extend(batch.finish().map(Job::Batch));
    jobs.extend(by_cpu.finish().map(Job::Cpu));
    first.extend(jobs);
    Jobs {
        jobs: first,
        long_frames,
    }
}

/// Bytes of files that wait for more.
struct Copying {
    /// The most bytes that are read together.
    most_bytes: u64,
    copies: Option<Copies>,
}

impl Copying {
    /// Adds a tensor that is stored plain. Copies that are complete become jobs.
    fn add(&mut self, place: usize, part: &StoredPart, jobs: &mut Vec<Job>) {
        let mut start = part.stored.start;
        while start < part.stored.end {
            let end = part.stored.end.min(start.saturating_add(self.most_bytes));
            let piece = Piece {
                stored: start..end,
                place,
                at: start - part.stored.start,
            };
            match &mut self.copies {
                Some(copies) if copies.may_take(part.file, &piece, self.most_bytes) => {
                    copies.stored.end = end;
                    copies.pieces.push(piece);
                }
                copies => {
                    let copies = copies.replace(Copies {
                        file: part.file,
                        stored: start..end,
                        pieces: vec![piece],
                    });
                    jobs.extend(copies.map(Job::Copy));
                }
            }
            start = end;
        }
    }
}

impl Copies {
    /// Returns whether the piece of a file follows these bytes, and is short enough to be
    /// read with them.
    fn may_take(&self, file: usize, piece: &Piece, most_bytes: u64) -> bool {
        let gap = piece.stored.start.checked_sub(self.stored.end);
        file == self.file
            && gap.is_some_and(|gap| gap <= MAX_GAP_BYTES)
            && piece.stored.end - self.stored.start <= most_bytes
    }
}

/// Consecutive tensors that wait for more.
#[derive(Default)]
struct Batching {
    places: Range<usize>,
    stored_bytes: u64,
    decoded_bytes: u64,
}

impl Batching {
    /// Adds a tensor with these numbers of stored and decoded bytes. Returns the tensors
    /// before it if they are complete.
    fn add(
        &mut self,
        place: usize,
        [stored_bytes, decoded_bytes]: [u64; 2],
        [most_stored, most_decoded]: [u64; 2],
    ) -> Option<Range<usize>> {
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

    fn finish(&mut self) -> Option<Range<usize>> {
        let Self { places, .. } = mem::take(self);
        (!places.is_empty()).then_some(places)
    }
}
