//! Loads models into GPU 0, compares every tensor with the CPU's decoder, and prints
//! speeds as a table. A speed is the number of decoded bytes per second.
//!
//! `cargo run --release -p zstn-gpu --features cuda --example load -- FILE…`

use std::error::Error;
use std::ops::Range;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zstn::Reader;
use zstn_core::frame::plan::DevicePlan;
use zstn_gpu::cuda::{Gpu, GpuQueue, Memory};
use zstn_gpu::load::{LoadOptions, load};
use zstn_gpu::{Damage, Device, Output, Queue};

const REPEATS: usize = 3;
const THREADS: usize = 8;
/// The length of a buffer where kernels are measured, which decode all of its tensors at
/// once.
const LARGE_BUFFER_BYTES: usize = 256 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::open(0)?;
    // Recordings are repeated from pinned memory that contains all of their bytes.
    gpu.set_queue_limit_bytes(u64::MAX);
    println!("{}, GB/s of decoded bytes\n", gpu.name());
    println!(
        "| file | stored | decoded | tensors by the CPU | kernels | pinned memory | page cache, \
         1 thread | {THREADS} threads | disk, {THREADS} threads |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for path in std::env::args().skip(1) {
        println!("{}", row(&gpu, &path)?);
    }
    Ok(())
}

/// Returns the row of a file.
fn row(gpu: &Gpu, path: &str) -> Result<String, Box<dyn Error>> {
    let reader = Reader::open(path)?;
    let options = LoadOptions::default();
    let large = options.clone().buffer_bytes(LARGE_BUFFER_BYTES).threads(4);
    let recordings = Arc::default();
    let recorder = Recorder {
        gpu,
        recordings: Arc::clone(&recordings),
    };
    let loaded = load(&recorder, &reader, &large)?;
    for tensor in &loaded.tensors {
        let expected = reader.read(&tensor.name)?;
        if loaded.memory.read(tensor.range.clone())? != expected.bytes {
            return Err(format!("{path}: {} has other bytes", tensor.name).into());
        }
    }
    let stored: u64 = reader
        .sources()
        .iter()
        .map(|source| source.len_bytes())
        .sum();
    let decoded: u64 = reader
        .tensors()
        .iter()
        .map(|tensor| tensor.len_bytes())
        .sum();
    let speed = |seconds: f64| match seconds > 0.0 {
        true => format!("{:.1}", decoded as f64 / seconds / 1e9),
        false => "–".into(),
    };
    let recordings = std::mem::take(&mut *recordings.lock().map_err(|_| "a thread has panicked")?);
    let kernels = best(|| kernel_seconds(gpu, &recordings))?;
    let pinned = best(|| replay(gpu, &recordings))?;
    let by_cpu = loaded.report.by_cpu;
    drop((loaded.memory, recordings));
    let timed = |threads| {
        let start = Instant::now();
        load(gpu, &reader, &options.clone().threads(threads))?;
        Ok(start.elapsed().as_secs_f64())
    };
    let one = best(|| timed(1))?;
    let many = best(|| timed(THREADS))?;
    let disk = best(|| {
        // Reads nothing, and asks the system to drop the file's pages.
        let dropped = Command::new("dd")
            .arg(format!("if={path}"))
            .args(["iflag=nocache", "count=0", "status=none"])
            .status()?;
        if !dropped.success() {
            return Err("dd cannot drop pages from the cache".into());
        }
        timed(THREADS)
    })?;
    Ok(format!(
        "| {path} | {stored} | {decoded} | {by_cpu} of {} | {} | {} | {} | {} | {} |",
        reader.tensors().len(),
        speed(kernels),
        speed(pinned),
        speed(one),
        speed(many),
        speed(disk)
    ))
}

/// Returns the shortest time of several runs.
fn best(mut run: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        best = best.min(run()?);
    }
    Ok(best)
}

/// A step of a queue.
enum Step {
    Copy {
        part: Range<usize>,
        to: Memory,
        at: u64,
    },
    Decode {
        plan: Box<DevicePlan>,
        host: Vec<Vec<u8>>,
        source: Memory,
        outputs: Vec<(Range<u64>, Memory, u64)>,
    },
}

/// The steps of one queue, and the bytes that they copy.
#[derive(Default)]
struct Recording {
    bytes: Vec<u8>,
    steps: Vec<Step>,
}

/// Records the work that is given to a GPU, so that it can be repeated without reading
/// and planning.
struct Recorder<'a> {
    gpu: &'a Gpu,
    recordings: Arc<Mutex<Vec<Recording>>>,
}

struct RecordedQueue {
    queue: GpuQueue,
    /// The bytes that the caller has read, as queues do not return a buffer twice.
    buffer: Vec<u8>,
    recording: Recording,
    recordings: Arc<Mutex<Vec<Recording>>>,
}

impl Drop for RecordedQueue {
    fn drop(&mut self) {
        let recording = std::mem::take(&mut self.recording);
        let mut all = self
            .recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(recording);
    }
}

impl Device for Recorder<'_> {
    type Memory = Memory;
    type Queue = RecordedQueue;

    fn allocate(&self, len_bytes: u64) -> zstn_gpu::Result<Memory> {
        self.gpu.allocate(len_bytes)
    }

    fn queue(
        &self,
        buffer_bytes: usize,
        patience: Duration,
    ) -> zstn_gpu::Result<Option<RecordedQueue>> {
        let queue = self.gpu.queue(buffer_bytes, patience)?;
        Ok(queue.map(|queue| RecordedQueue {
            queue,
            buffer: vec![0; buffer_bytes],
            recording: Recording::default(),
            recordings: self.recordings.clone(),
        }))
    }
}

impl Queue for RecordedQueue {
    type Memory = Memory;

    fn buffer(&mut self) -> zstn_gpu::Result<&mut [u8]> {
        Ok(&mut self.buffer)
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> zstn_gpu::Result<()> {
        let Recording { bytes, steps } = &mut self.recording;
        let (read, start) = (&self.buffer[part], bytes.len());
        bytes.extend_from_slice(read);
        self.queue.buffer()?[..read.len()].copy_from_slice(read);
        self.queue.copy(0..read.len(), to, at)?;
        steps.push(Step::Copy {
            part: start..bytes.len(),
            to: to.clone(),
            at,
        });
        Ok(())
    }

    fn source(&mut self) -> zstn_gpu::Result<Memory> {
        self.queue.source()
    }

    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Memory,
        outputs: &[Output<'_, Memory>],
    ) -> zstn_gpu::Result<Option<Damage>> {
        let owned = |output: &Output<'_, Memory>| {
            (output.planned.clone(), output.memory.clone(), output.at)
        };
        self.recording.steps.push(Step::Decode {
            plan: Box::new(plan.clone()),
            host: host.to_vec(),
            source: source.clone(),
            outputs: outputs.iter().map(owned).collect(),
        });
        self.queue.decode(plan, host, source, outputs)
    }

    fn wait(&mut self) -> zstn_gpu::Result<()> {
        self.queue.wait()
    }
}

/// Returns a queue whose buffer contains the bytes of a recording.
fn prepared(gpu: &Gpu, recording: &Recording) -> zstn_gpu::Result<GpuQueue> {
    let queue = gpu.queue(recording.bytes.len(), Duration::ZERO)?;
    let no_queue = || zstn_gpu::Error::Usage("the GPU allows no further queue".into());
    let mut queue = queue.ok_or_else(no_queue)?;
    queue.buffer()?[..recording.bytes.len()].copy_from_slice(&recording.bytes);
    Ok(queue)
}

/// Repeats a recording, and returns how many seconds its kernels have taken.
fn repeat(queue: &mut GpuQueue, recording: &Recording) -> zstn_gpu::Result<f64> {
    let mut seconds = 0.0;
    for step in &recording.steps {
        match step {
            Step::Copy { part, to, at } => queue.copy(part.clone(), to, *at)?,
            Step::Decode {
                plan,
                host,
                source,
                outputs,
            } => {
                let outputs = outputs.iter().map(|(planned, memory, at)| Output {
                    planned: planned.clone(),
                    memory,
                    at: *at,
                });
                queue.decode(plan, host, source, &outputs.collect::<Vec<_>>())?;
                seconds += f64::from(queue.kernel_seconds()?);
            }
        }
    }
    queue.wait()?;
    Ok(seconds)
}

/// Returns how many seconds the kernels take, one plan at a time.
fn kernel_seconds(gpu: &Gpu, recordings: &[Recording]) -> Result<f64, Box<dyn Error>> {
    let mut seconds = 0.0;
    for recording in recordings {
        seconds += repeat(&mut prepared(gpu, recording)?, recording)?;
    }
    Ok(seconds)
}

/// Returns how many seconds copies from pinned memory and decoding take.
fn replay(gpu: &Gpu, recordings: &[Recording]) -> Result<f64, Box<dyn Error>> {
    let queues: Result<Vec<_>, _> = recordings.iter().map(|all| prepared(gpu, all)).collect();
    let mut queues = queues?;
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = queues
            .iter_mut()
            .zip(recordings)
            .map(|(queue, recording)| scope.spawn(move || repeat(queue, recording)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok(start.elapsed().as_secs_f64())
    })
}
