//! Loads whole models into the memory of a device.
//!
//! Several threads read, each into a buffer of its own that the device copies from.
//! Tensors of plain files are copied in parts. Packed tensors are compared with their
//! checksums while they are in the processor's cache, and planned; the device then
//! decodes all tensors of a buffer. Tensors that a plan does not cover are decoded by
//! the CPU.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use zstn::source::Source;
use zstn::zstn_core::catalog::FileKind;
use zstn::zstn_core::model::StoredPart;
use zstn::{CancelToken, Dtype, Reader};
use zstn_core::bytes;
use zstn_core::frame::plan::{DevicePlan, Placement};

use crate::{Device, Error, Queue, Result};

/// The alignment of tensors in the output, in bytes.
const TENSOR_ALIGN: u64 = 256;
/// The smallest buffer in bytes.
const MIN_BUFFER_BYTES: usize = 4096;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    threads: usize,
    buffer_bytes: usize,
    cancel_token: CancelToken,
}

impl Default for LoadOptions {
    /// Returns four threads with buffers of 32 MiB.
    fn default() -> Self {
        Self {
            threads: 4,
            buffer_bytes: 32 << 20,
            cancel_token: CancelToken::new(),
        }
    }
}

impl LoadOptions {
    /// Sets the number of threads that read; at least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets the length of each thread's buffer in bytes; at least 4 KiB.
    #[must_use]
    pub fn buffer_bytes(mut self, buffer_bytes: usize) -> Self {
        self.buffer_bytes = buffer_bytes.max(MIN_BUFFER_BYTES);
        self
    }

    /// Sets the token that ends the work with [`zstn::Error::Cancelled`].
    #[must_use]
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel_token = token.clone();
        self
    }
}

/// A loaded model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded<M> {
    /// The memory that contains all tensors.
    pub memory: M,
    /// The tensors, in the order of [`Reader::tensors`].
    pub tensors: Vec<LoadedTensor>,
    /// Number of tensors that the CPU has decoded.
    pub by_cpu: usize,
}

/// A tensor in the memory of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedTensor {
    /// The name, unique within the model.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The bytes of the memory that contain the tensor, which begin at a multiple of 256.
    pub range: Range<u64>,
}

/// Loads all tensors of a model. Stored bytes of ZSTN files are compared with their
/// checksums, as by [`Verify::Stored`](zstn::Verify); digests of decoded bytes are
/// only compared for tensors that the CPU decodes.
///
/// # Errors
/// The error with which [`Reader::read`] refuses a tensor; [`zstn::Error::Cancelled`];
/// the errors of the device.
pub fn load<D: Device>(
    device: &D,
    reader: &Reader,
    options: &LoadOptions,
) -> Result<Loaded<D::Memory>> {
    let (tensors, len_bytes) = layout(reader)?;
    let jobs = divide(reader, &tensors, options.buffer_bytes);
    let memory = device.allocate(len_bytes)?;
    let load = Load {
        device,
        reader,
        options,
        tensors: &tensors,
        output: &memory,
        by_cpu: AtomicUsize::new(0),
    };
    load.run(&jobs)?;
    for source in reader.all_sources() {
        source.check_unchanged()?;
    }
    let by_cpu = load.by_cpu.into_inner();
    Ok(Loaded {
        memory,
        tensors,
        by_cpu,
    })
}

/// Returns the places of all tensors, and the length of the memory in bytes.
fn layout(reader: &Reader) -> Result<(Vec<LoadedTensor>, u64)> {
    let mut end = 0u64;
    let mut tensors = Vec::new();
    for tensor in reader.tensors() {
        let start = end.checked_next_multiple_of(TENSOR_ALIGN);
        let place = start.and_then(|start| Some(start..start.checked_add(tensor.len_bytes())?));
        let too_long = || Error::Usage("the tensors have over 2^64 bytes".into());
        let range = place.ok_or_else(too_long)?;
        end = range.end;
        tensors.push(LoadedTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            range,
        });
    }
    Ok((tensors, end))
}

/// Work for one thread.
enum Job {
    /// Bytes of a file that are bytes of the output.
    Copy {
        file: usize,
        stored: Range<u64>,
        output: u64,
    },
    /// Packed tensors whose frames fit into a buffer together, or one tensor of any
    /// length.
    Decode(Range<usize>),
    /// A tensor that only the CPU decodes.
    Cpu(usize),
}

/// Returns the only part of a tensor that is stored as a frame of a ZSTN file.
fn frame(reader: &Reader, number: usize) -> Option<&StoredPart> {
    let tensor = reader.tensors().get(number)?;
    match &tensor.parts[..] {
        [part] if tensor.base.is_none() && tensor.weight().is_none() => {
            let file = reader.model().files().get(part.file)?;
            (file.kind() == FileKind::Zstn).then_some(part)
        }
        _ => None,
    }
}

fn divide(reader: &Reader, tensors: &[LoadedTensor], buffer_bytes: usize) -> Vec<Job> {
    let buffer_bytes = buffer_bytes as u64;
    let mut jobs = Vec::new();
    // The packed tensors that wait for more, and the length of their frames.
    let (mut waiting, mut waiting_bytes) = (0..0, 0);
    for (number, tensor) in tensors.iter().enumerate() {
        if let Some(part) = frame(reader, number) {
            let len_bytes = part.len_bytes();
            if waiting.end != number || waiting_bytes + len_bytes > buffer_bytes {
                jobs.extend((!waiting.is_empty()).then_some(Job::Decode(waiting)));
                (waiting, waiting_bytes) = (number..number, 0);
            }
            waiting.end = number + 1;
            waiting_bytes += len_bytes;
        } else if let Some(part) = reader.model().plain_part(number) {
            let mut done = 0;
            while done < part.len_bytes() {
                let end = part.len_bytes().min(done + buffer_bytes);
                jobs.push(Job::Copy {
                    file: part.file,
                    stored: part.stored.start + done..part.stored.start + end,
                    output: tensor.range.start + done,
                });
                done = end;
            }
        } else {
            jobs.push(Job::Cpu(number));
        }
    }
    jobs.extend((!waiting.is_empty()).then_some(Job::Decode(waiting)));
    jobs
}

/// The state that all threads share.
struct Load<'a, D: Device> {
    device: &'a D,
    reader: &'a Reader,
    options: &'a LoadOptions,
    tensors: &'a [LoadedTensor],
    output: &'a D::Memory,
    by_cpu: AtomicUsize,
}

impl<D: Device> Load<'_, D> {
    fn run(&self, jobs: &[Job]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let is_stopped = AtomicBool::new(false);
        let failed = Mutex::new(None);
        let work = || {
            let result = self.work(jobs, &next, &is_stopped);
            if let Err(error) = result {
                is_stopped.store(true, Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        };
        thread::scope(|scope| {
            let others = 1..self.options.threads.min(jobs.len());
            let threads = others.map(|_| thread::Builder::new().spawn_scoped(scope, work));
            // If the system refuses a thread, the others do its work.
            let _threads: Vec<_> = threads.collect();
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Does jobs until there are none, or until another thread has failed.
    fn work(&self, jobs: &[Job], next: &AtomicUsize, is_stopped: &AtomicBool) -> Result<()> {
        let mut queue = self.device.queue(self.options.buffer_bytes)?;
        // Allocated for the first packed tensor.
        let mut source = None;
        loop {
            let job = jobs.get(next.fetch_add(1, Ordering::Relaxed));
            let Some(job) = job.filter(|_| !is_stopped.load(Ordering::Relaxed)) else {
                return queue.wait();
            };
            self.check_cancelled()?;
            match job {
                Job::Copy {
                    file,
                    stored,
                    output,
                } => {
                    let len = copied_len(stored)?;
                    let buffer = queue.buffer()?;
                    let Some(buffer) = buffer.get_mut(..len) else {
                        return Err(Error::Usage("a part is longer than a buffer".into()));
                    };
                    self.source(*file)?.read_into(stored.start, buffer)?;
                    queue.copy(0..len, self.output, *output)?;
                }
                Job::Decode(numbers) => self.decode(&mut queue, &mut source, numbers)?,
                Job::Cpu(number) => self.decode_by_cpu(&mut queue, *number)?,
            }
        }
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.options.cancel_token.is_cancelled() {
            true => Err(zstn::Error::Cancelled.into()),
            false => Ok(()),
        }
    }

    fn source(&self, file: usize) -> Result<&dyn Source> {
        let source = self.reader.sources().get(file).map(|source| &**source);
        source.ok_or_else(|| Error::Usage(format!("the model has no file {file}")))
    }

    /// Decodes tensors whose frames fit into the buffer together, or one tensor.
    fn decode(
        &self,
        queue: &mut D::Queue,
        source: &mut Option<D::Memory>,
        numbers: &Range<usize>,
    ) -> Result<()> {
        let parts = numbers
            .clone()
            .filter_map(|number| frame(self.reader, number));
        let len_bytes = parts.map(StoredPart::len_bytes).sum();
        if len_bytes > self.options.buffer_bytes as u64 {
            return self.decode_long(queue, numbers.start, len_bytes);
        }
        let source = match source {
            Some(source) => source,
            None => source.insert(self.device.allocate(self.options.buffer_bytes as u64)?),
        };
        let mut batch = Batch::default();
        let buffer = queue.buffer()?;
        let mut end = 0;
        for number in numbers.clone() {
            let Some(part) = frame(self.reader, number) else {
                continue;
            };
            let len = copied_len(&part.stored)?;
            let Some(stored) = buffer.get_mut(end..).and_then(|rest| rest.get_mut(..len)) else {
                return Err(Error::Usage("frames are longer than the buffer".into()));
            };
            self.source(part.file)?
                .read_into(part.stored.start, stored)?;
            self.plan(&mut batch, number, part, stored, end as u64)?;
            end += len;
        }
        self.decode_host_segments(&mut batch, &buffer[..end])?;
        queue.copy(0..end, source, 0)?;
        self.finish(queue, source, &batch, numbers)
    }

    /// Decodes a tensor whose frame is longer than the buffer.
    fn decode_long(&self, queue: &mut D::Queue, number: usize, len_bytes: u64) -> Result<()> {
        let Some(part) = frame(self.reader, number) else {
            return Ok(());
        };
        let source = self.device.allocate(len_bytes)?;
        let mut stored = bytes::buffer(part.len_bytes())?;
        let mut at = 0;
        for piece in stored.chunks_mut(self.options.buffer_bytes) {
            self.check_cancelled()?;
            self.source(part.file)?
                .read_into(part.stored.start + at, piece)?;
            send::<D>(queue, piece, &source, at)?;
            at += piece.len() as u64;
        }
        let mut batch = Batch::default();
        self.plan(&mut batch, number, part, &stored, 0)?;
        self.decode_host_segments(&mut batch, &stored)?;
        self.finish(queue, &source, &batch, &(number..number + 1))
    }

    /// Adds a tensor to a batch. Its `stored` bytes are at `at` of the source.
    fn plan(
        &self,
        batch: &mut Batch,
        number: usize,
        part: &StoredPart,
        stored: &[u8],
        at: u64,
    ) -> Result<()> {
        let (Some(file), Some(tensor)) = (
            self.reader.model().files().get(part.file),
            self.tensors.get(number),
        ) else {
            return Err(Error::Usage(format!("the model has no tensor {number}")));
        };
        let output = tensor.range.clone();
        let plan = &mut batch.plan;
        let engine = self.reader.engine();
        // For a tensor that is refused here, the CPU's decoder returns the error.
        let added = file.add_to_plan(engine, part.number, stored, at, output, plan);
        if added != Ok(Placement::Device) {
            batch.by_cpu.push(number);
        }
        Ok(())
    }

    /// Decodes the host segments of a plan.
    fn decode_host_segments(&self, batch: &mut Batch, source: &[u8]) -> Result<()> {
        for host in batch.plan.host_segments() {
            let range = host.source..host.source.saturating_add(host.source_len);
            let mut out = bytes::buffer(host.len)?;
            let coded = bytes::part(source, range);
            if host.decode(self.reader.engine(), coded, &mut out).is_err() {
                batch.is_damaged = true;
                break;
            }
            batch.host.push(out);
        }
        Ok(())
    }

    /// Decodes the tensors of a batch, whose frames have been copied to `source`. If the
    /// device finds damage, the CPU decodes all of them. The result is then an error of
    /// the reader, or the tensors that a reader returns.
    fn finish(
        &self,
        queue: &mut D::Queue,
        source: &D::Memory,
        batch: &Batch,
        numbers: &Range<usize>,
    ) -> Result<()> {
        let is_planned = batch.by_cpu.len() < numbers.len();
        let is_damaged = is_planned
            && (batch.is_damaged
                || queue
                    .decode(&batch.plan, &batch.host, source, self.output)?
                    .is_some());
        let by_cpu = match is_damaged {
            true => numbers.clone().collect(),
            false => batch.by_cpu.clone(),
        };
        for number in by_cpu {
            self.decode_by_cpu(queue, number)?;
        }
        Ok(())
    }

    /// Decodes a tensor by the CPU, and copies it to the device.
    fn decode_by_cpu(&self, queue: &mut D::Queue, number: usize) -> Result<()> {
        let tensor = self.tensors.get(number);
        let tensor = tensor.ok_or_else(|| Error::Usage(format!("there is no tensor {number}")))?;
        let decoded = self.reader.read(&tensor.name)?.bytes;
        self.by_cpu.fetch_add(1, Ordering::Relaxed);
        let mut at = tensor.range.start;
        for piece in decoded.chunks(self.options.buffer_bytes) {
            send::<D>(queue, piece, self.output, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// Tensors that are decoded together.
#[derive(Default)]
struct Batch {
    plan: DevicePlan,
    /// The decoded host segments of the plan.
    host: Vec<Vec<u8>>,
    /// True if a host segment is damaged.
    is_damaged: bool,
    /// Tensors that the plan does not cover.
    by_cpu: Vec<usize>,
}

/// Copies `piece`, which is at most as long as the buffer, to the device.
fn send<D: Device>(queue: &mut D::Queue, piece: &[u8], to: &D::Memory, at: u64) -> Result<()> {
    let Some(buffer) = queue.buffer()?.get_mut(..piece.len()) else {
        return Err(Error::Usage("a piece is longer than the buffer".into()));
    };
    buffer.copy_from_slice(piece);
    queue.copy(0..piece.len(), to, at)
}

fn copied_len(range: &Range<u64>) -> Result<usize> {
    let len = range.end.saturating_sub(range.start);
    usize::try_from(len).map_err(|_| Error::Usage("a part is longer than memory".into()))
}
