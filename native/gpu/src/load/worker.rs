//! The threads that load a model.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zstn::source::Source;
use zstn::{Reader, zstn_core};

use super::divide::{Copies, Job, Jobs, divide};
use super::long_frame::Spares;
use super::{LoadOptions, Place};
use crate::{Device, Error, Queue, Result};

/// How long a load waits for a queue before it checks whether it has been cancelled.
const PATIENCE: Duration = Duration::from_millis(100);

/// The state that all threads share.
pub(super) struct Load<'a, D: Device> {
    pub device: &'a D,
    pub reader: &'a Reader,
    pub options: &'a LoadOptions,
    pub places: &'a [Place<'a, D::Memory>],
    pub spares: Spares<D::Memory>,
    jobs: Jobs<D::Memory>,
}

impl<'a, D: Device> Load<'a, D> {
    pub fn new(
        device: &'a D,
        reader: &'a Reader,
        options: &'a LoadOptions,
        places: &'a [Place<'a, D::Memory>],
    ) -> Self {
        Self {
            device,
            reader,
            options,
            places,
            spares: Spares::default(),
            jobs: divide(reader, places, options),
        }
    }

    /// Does all jobs.
    pub fn run(self) -> Result<()> {
        if self.jobs.jobs.is_empty() {
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        let is_stopped = AtomicBool::new(false);
        let failed = Mutex::new(None);
        let work = |queue: &mut D::Queue| {
            if let Err(error) = self.work(queue, &next, &is_stopped) {
                is_stopped.store(true, Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        };
        let mut queue = self.first_queue()?;
        thread::scope(|scope| {
            // If the system refuses a thread, or the device refuses its queue, the others
            // do its work.
            let another = || {
                let queue = self.device.queue(self.options.buffer_bytes, Duration::ZERO);
                if let Ok(Some(mut queue)) = queue {
                    work(&mut queue);
                }
            };
            let threads = self.options.threads_for(self.reader);
            let others = 1..threads.min(self.jobs.jobs.len());
            let threads = others.map(|_| thread::Builder::new().spawn_scoped(scope, another));
            let _threads: Vec<_> = threads.collect();
            work(&mut queue);
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns a queue, for which other loads may have to end first.
    fn first_queue(&self) -> Result<D::Queue> {
        loop {
            self.check_cancelled()?;
            let queue = self.device.queue(self.options.buffer_bytes, PATIENCE)?;
            if let Some(queue) = queue {
                return Ok(queue);
            }
        }
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.options.cancel_token.is_cancelled() {
            true => Err(zstn::Error::Cancelled.into()),
            false => Ok(()),
        }
    }

    /// Does jobs until there are none, or until another thread has failed.
    fn work(
        &self,
        queue: &mut D::Queue,
        next: &AtomicUsize,
        is_stopped: &AtomicBool,
    ) -> Result<()> {
        loop {
            let job = self.jobs.jobs.get(next.fetch_add(1, Ordering::Relaxed));
            let Some(job) = job.filter(|_| !is_stopped.load(Ordering::Relaxed)) else {
                return queue.wait();
            };
            self.check_cancelled()?;
            match job {
                Job::Copy(copies) => self.copy_plain(queue, copies)?,
                Job::Batch(places) => self.decode_batch(queue, places)?,
                Job::Part(frame, part) => {
                    let frame = self.jobs.long_frames.get(*frame);
                    let no_frame = || Error::Usage("a job has no frame".into());
                    self.load_part(queue, frame.ok_or_else(no_frame)?, *part)?;
                }
                Job::Cpu(places) if places.len() == 1 => self.decode_by_cpu(queue, places.start)?,
                Job::Cpu(places) => self.decode_several_by_cpu(queue, places)?,
            }
        }
    }

    /// Reads bytes of a file and copies them into tensors.
    fn copy_plain(&self, queue: &mut D::Queue, copies: &Copies) -> Result<()> {
        let stored = &copies.stored;
        let buffer = part_of(queue.buffer()?, stored.end - stored.start)?;
        self.source(copies.file)?.read_into(stored.start, buffer)?;
        for piece in &copies.pieces {
            let place = self.place(piece.place)?;
            let at = place.at.saturating_add(piece.at);
            let part = within(stored.start, &piece.stored)?;
            queue.copy(part, place.memory, at)?;
        }
        Ok(())
    }

    /// Reads `ranges` of a file into `out`, one after the other. `out` has their total
    /// length. If the file is on a server, ranges that are close together are read by one
    /// request. The caller has to compare the bytes with their checksums, if the file has
    /// any.
    pub fn read(&self, file: usize, ranges: &[Range<u64>], out: &mut [u8]) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let source = self.source(file)?;
        let mut outs = Vec::with_capacity(ranges.len());
        let mut rest = out;
        for range in ranges {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let too_short = || Error::Usage("bytes to read are longer than the buffer".into());
            let (out, after) = rest.split_at_mut_checked(len).ok_or_else(too_short)?;
            outs.push(out);
            rest = after;
        }
        if !source.is_remote() {
            for (range, out) in ranges.iter().zip(outs) {
                source.read_into(range.start, out)?;
            }
            return Ok(());
        }
        let catalog = self.reader.model().files().get(file);
        let read = match catalog.is_some_and(|file| file.is_covered()) {
            true => source.read_compared(ranges),
            false => source.read_ranges(ranges),
        }?;
        for (out, bytes) in outs.into_iter().zip(read) {
            if out.len() != bytes.len() {
                let detail = format!("{} gave another number of bytes", source.name());
                return Err(zstn_core::Error::invalid_input(detail).into());
            }
            out.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Returns the place with this index.
    pub fn place(&self, index: usize) -> Result<&Place<'a, D::Memory>> {
        let place = self.places.get(index);
        place.ok_or_else(|| Error::Usage(format!("no tensor has the index {index}")))
    }

    /// Returns the source of a file of the model.
    pub fn source(&self, file: usize) -> Result<&dyn Source> {
        let source = self.reader.sources().get(file).map(|source| &**source);
        source.ok_or_else(|| Error::Usage(format!("the model has no file {file}")))
    }

    /// Reads a tensor, which the CPU decodes, and copies it to the device.
    pub fn decode_by_cpu(&self, queue: &mut D::Queue, place: usize) -> Result<()> {
        let place = self.place(place)?;
        let name = place.name;
        if place.len_bytes() > self.options.buffer_bytes as u64 {
            let decoded = self.reader.read(name)?.bytes;
            return self.copy_decoded(queue, place, &decoded);
        }
        place.is_by_cpu.store(true, Ordering::Relaxed);
        let buffer = part_of(queue.buffer()?, place.len_bytes())?;
        self.reader.read_into(name, buffer)?;
        let len = buffer.len();
        queue.copy(0..len, place.memory, place.at)
    }

    /// Reads tensors that fit into a buffer together, and copies them to the device.
    fn decode_several_by_cpu(&self, queue: &mut D::Queue, places: &Range<usize>) -> Result<()> {
        let places = places.clone().map(|place| self.place(place));
        let places = places.collect::<Result<Vec<_>>>()?;
        let len_bytes = places.iter().map(|place| place.len_bytes()).sum();
        let mut rest = part_of(queue.buffer()?, len_bytes)?;
        let mut wanted = Vec::with_capacity(places.len());
        for place in &places {
            let len = usize::try_from(place.len_bytes()).unwrap_or(usize::MAX);
            let (out, after) = rest.split_at_mut_checked(len).unwrap_or_default();
            wanted.push((place.name, out));
            rest = after;
        }
        self.reader.read_many_into(wanted, &())?;
        let mut start = 0;
        for place in places {
            place.is_by_cpu.store(true, Ordering::Relaxed);
            let len = usize::try_from(place.len_bytes()).unwrap_or(usize::MAX);
            queue.copy(start..start + len, place.memory, place.at)?;
            start += len;
        }
        Ok(())
    }

    /// Copies a tensor, which the CPU has decoded, to the device.
    pub fn copy_decoded(
        &self,
        queue: &mut D::Queue,
        place: &Place<'_, D::Memory>,
        decoded: &[u8],
    ) -> Result<()> {
        place.is_by_cpu.store(true, Ordering::Relaxed);
        let mut at = place.at;
        for piece in decoded.chunks(self.options.buffer_bytes) {
            part_of(queue.buffer()?, piece.len() as u64)?.copy_from_slice(piece);
            queue.copy(0..piece.len(), place.memory, at)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }
}

/// Returns the positions of `range` in bytes that begin at the offset `start`.
fn within(start: u64, range: &Range<u64>) -> Result<Range<usize>> {
    let position = |at: u64| {
        at.checked_sub(start)
            .and_then(|at| usize::try_from(at).ok())
    };
    match (position(range.start), position(range.end)) {
        (Some(start), Some(end)) => Ok(start..end),
        _ => Err(Error::Usage(
            "a tensor lies outside the bytes that were read".into(),
        )),
    }
}

/// Returns the first `len_bytes` bytes of a buffer.
pub(super) fn part_of(buffer: &mut [u8], len_bytes: u64) -> Result<&mut [u8]> {
    let part = usize::try_from(len_bytes).ok();
    let part = part.and_then(|len| buffer.get_mut(..len));
    part.ok_or_else(|| {
        let error = "bytes to copy are longer than the buffer";
        zstn_core::Error::invalid_input(error).into()
    })
}
