//! The threads that load a model.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use zstn::source::Source;
use zstn::{Reader, zstn_core};

use super::divide::{Job, Jobs, divide};
use super::long_frame::Spares;
use super::{LoadOptions, LoadReport, Place};
use crate::{Device, Error, Queue, Result};

/// The state that all threads share.
pub(super) struct Load<'a, D: Device> {
    pub device: &'a D,
    pub reader: &'a Reader,
    pub options: &'a LoadOptions,
    pub places: &'a [Place<'a, D::Memory>],
    pub spares: Spares<D::Memory>,
    jobs: Jobs<D::Memory>,
    by_cpu: AtomicUsize,
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
            by_cpu: AtomicUsize::new(0),
        }
    }

    /// Does all jobs.
    pub fn run(self) -> Result<LoadReport> {
        if self.jobs.jobs.is_empty() {
            return Ok(LoadReport::default());
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
        let mut queue = self.device.queue(self.options.buffer_bytes)?;
        thread::scope(|scope| {
            // If the system refuses a thread, or the device refuses its queue, the others
            // do its work.
            let another = || {
                if let Ok(mut queue) = self.device.queue(self.options.buffer_bytes) {
                    work(&mut queue);
                }
            };
            let others = 1..self.options.threads.min(self.jobs.jobs.len());
            let threads = others.map(|_| thread::Builder::new().spawn_scoped(scope, another));
            let _threads: Vec<_> = threads.collect();
            work(&mut queue);
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(LoadReport {
                by_cpu: self.by_cpu.into_inner(),
            }),
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
            if self.options.cancel_token.is_cancelled() {
                return Err(zstn::Error::Cancelled.into());
            }
            match job {
                Job::Copy {
                    file,
                    stored,
                    place,
                    at,
                } => {
                    let (place, source) = (self.place(*place)?, self.source(*file)?);
                    let len_bytes = stored.end - stored.start;
                    let buffer = part_of(queue.buffer()?, len_bytes)?;
                    source.read_into(stored.start, buffer)?;
                    let len = buffer.len();
                    queue.copy(0..len, place.memory, place.at.saturating_add(*at))?;
                }
                Job::Batch(places) => self.decode_batch(queue, places)?,
                Job::Part(frame, part) => {
                    let frame = self.jobs.long_frames.get(*frame);
                    let no_frame = || Error::Usage("a job has no frame".into());
                    self.load_part(queue, frame.ok_or_else(no_frame)?, *part)?;
                }
                Job::Cpu(place) => self.decode_by_cpu(queue, *place)?,
            }
        }
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

    /// Decodes a tensor by the CPU, and copies it to the device.
    pub fn decode_by_cpu(&self, queue: &mut D::Queue, place: usize) -> Result<()> {
        let place = self.place(place)?;
        let tensor = self.reader.tensors().get(place.number);
        let no_tensor = || Error::Usage(format!("there is no tensor {}", place.number));
        let tensor = tensor.ok_or_else(no_tensor)?;
        self.by_cpu.fetch_add(1, Ordering::Relaxed);
        if tensor.len_bytes() <= self.options.buffer_bytes as u64 {
            let buffer = part_of(queue.buffer()?, tensor.len_bytes())?;
            self.reader.read_into(&tensor.name, buffer)?;
            let len = buffer.len();
            return queue.copy(0..len, place.memory, place.at);
        }
        let decoded = self.reader.read(&tensor.name)?.bytes;
        let mut at = place.at;
        for piece in decoded.chunks(self.options.buffer_bytes) {
            part_of(queue.buffer()?, piece.len() as u64)?.copy_from_slice(piece);
            queue.copy(0..piece.len(), place.memory, at)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
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
