//! Reads many tensors in one call.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::sync::mpsc;
use std::thread;

use zstn_core::bytes;
use zstn_core::engine::Engine as _;
use zstn_core::model::StoredPart;

use super::Reader;
use super::decode::decode_parts;
use super::state_machine::Opened as _;
use crate::progress::Progress;
use crate::source::{Source, Wanted, read_wanted};
use crate::{Error, Result};

/// The stored bytes of remote tensors that are fetched at the same time. Two such
/// windows are in memory at once: one is decoded while the next one is fetched.
const REMOTE_WINDOW_BYTES: u64 = 32 << 20;

/// The length of the pieces into which a stored part in a local file is divided, so
/// that all threads can read it together.
const PIECE_BYTES: usize = 1 << 20;

/// A tensor to read, with its output buffer.
struct Job<'a> {
    number: usize,
    out: &'a mut [u8],
    way: Way,
}

/// How a tensor is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The stored bytes are the tensor; they are read into the caller's buffer.
    InPlace,
    /// The stored parts are read first and then decoded.
    Parts,
    /// The tensor is read separately, because decoding also requires tensors of a base.
    WithBase,
}

impl Reader {
    /// Reads several tensors into the caller's buffers, in the order of their stored
    /// data, with the results of [`Reader::read_into`]. Several tensors are decoded at
    /// the same time. Each request to a server fetches many tensors while earlier ones
    /// are decoded. `progress` counts decoded bytes.
    ///
    /// In addition to `wanted`, this needs memory for the stored bytes of the largest
    /// tensor in local files, and 64 MiB or twice the stored bytes of the largest
    /// tensor in remote ones. For tensors that require a base, each thread also needs
    /// the memory that [`Reader::read_into`] does.
    ///
    /// # Errors
    /// The errors of [`Reader::read_into`] and of [`Progress::check`]. After an error, the
    /// contents of the buffers are unspecified.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"y":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}"#;
    /// # let len = (header.len() as u64).to_le_bytes();
    /// # std::fs::write(&path, [&len[..], header, &[1, 2, 3, 4]].concat())?;
    /// let reader = zstn::Reader::open(&path)?;
    /// let (mut x, mut y) = ([0; 3], [0; 1]);
    /// reader.read_many_into(vec![("y", &mut y), ("x", &mut x)], &())?;
    /// assert_eq!((x, y), ([1, 2, 3], [4]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_many_into(
        &self,
        wanted: Vec<(&str, &mut [u8])>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let is_remote = self.all_sources().any(Source::is_remote);
        let mut jobs = Vec::with_capacity(wanted.len());
        for (name, out) in wanted {
            let number = self.number(name)?;
            self.check_len(number, out)?;
            let way = if self.tensors()[number].base.is_some() {
                Way::WithBase
            } else if !is_remote && self.model().plain_part(number).is_some() {
                Way::InPlace
            } else {
                Way::Parts
            };
            jobs.push(Job { number, out, way });
        }
        jobs.sort_by_key(|job| {
            let part = self.tensors()[job.number].parts.first();
            part.map(|part| (part.file, part.stored.start))
        });
        progress.begin(jobs.iter().map(|job| job.out.len() as u64).sum());
        if is_remote {
            return self.read_remote(jobs, progress);
        }
        // Runs on a thread of the engine: waking one for each window takes longer than
        // decoding a small window.
        let engine = self.engine();
        engine.join(|| self.read_local(jobs, progress), || ()).0
    }

    fn read_local(&self, jobs: Vec<Job<'_>>, progress: &dyn Progress) -> Result<()> {
        let max_bytes = jobs.iter().map(|job| self.stored_len_bytes(job)).max();
        let max_bytes = max_bytes.unwrap_or_default();
        let scratch_bytes = jobs.iter().map(|job| self.scratch_len_bytes(job)).sum();
        // All windows share this memory, because the system has to zero fresh memory.
        let mut scratch = bytes::buffer(max_bytes.min(scratch_bytes))?;
        for jobs in self.windows(jobs, max_bytes) {
            let mut rest = &mut scratch[..];
            let with_memory = jobs.into_iter().map(|job| {
                let len = bytes::index(self.scratch_len_bytes(&job));
                (job, take_front(&mut rest, len))
            });
            let results = self.engine().map(with_memory.collect(), |(job, memory)| {
                self.read_job(job.number, job.out, job.way, memory)?;
                progress.advance(job.out.len() as u64);
                progress.check()
            });
            results.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    /// Reads a tensor; `memory` is at least as long as its stored parts.
    fn read_job(
        &self,
        number: usize,
        out: &mut [u8],
        way: Way,
        mut memory: &mut [u8],
    ) -> Result<()> {
        let parts = &self.tensors()[number].parts;
        match (way, &parts[..]) {
            (Way::InPlace, [part]) => {
                let read = self.read_in_pieces(part, out);
                self.check_parts(parts)?;
                read
            }
            (Way::Parts, _) => {
                let mut read = Vec::with_capacity(parts.len());
                for part in parts {
                    let source = self.source(part);
                    if source.is_in_memory() {
                        read.push(source.read(part.stored.clone())?);
                        continue;
                    }
                    let into = take_front(&mut memory, bytes::index(part.len_bytes()));
                    self.read_in_pieces(part, into)?;
                    read.push(Cow::Borrowed(into));
                }
                decode_parts(self, self.engine(), number, &read, None, out)
            }
            _ => self.decode_into(self.engine(), number, out),
        }
    }

    /// Fills `out` with a stored part; all threads read pieces of it.
    fn read_in_pieces(&self, part: &StoredPart, out: &mut [u8]) -> Result<()> {
        let source = self.source(part);
        let pieces: Vec<_> = out.chunks_mut(PIECE_BYTES).enumerate().collect();
        let results = self.engine().map(pieces, |(number, piece)| {
            source.read_into(part.stored.start + (number * PIECE_BYTES) as u64, piece)
        });
        results.into_iter().collect()
    }

    fn read_remote(&self, jobs: Vec<Job<'_>>, progress: &dyn Progress) -> Result<()> {
        let windows = self.windows(jobs, REMOTE_WINDOW_BYTES);
        let plan: Vec<Vec<_>> = windows
            .iter()
            .map(|jobs| jobs.iter().flat_map(|job| self.fetched(job)).collect())
            .collect();
        // Fetches one window ahead of the window that is being decoded.
        let (sender, receiver) = mpsc::sync_channel(0);
        thread::scope(|scope| {
            // The receiver is dropped before the scope waits for the thread, whose next
            // send then fails.
            let receiver = receiver;
            let fetch = move || {
                for wanted in &plan {
                    let parts = read_wanted(wanted);
                    let has_failed = parts.is_err();
                    // No window is received after an error.
                    if sender.send(parts).is_err() || has_failed {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name("zstn-source".into());
            thread
                .spawn_scoped(scope, fetch)
                .map_err(|error| Error::io("start a thread", error))?;
            for jobs in windows {
                let fetched = receiver.recv().map_err(|error| {
                    Error::io(format!("read {}", self.name()), io::Error::other(error))
                })?;
                self.decode_window(jobs, fetched?, progress)?;
            }
            Ok(())
        })
    }

    /// Returns the ranges of a tensor that are fetched together with its window.
    fn fetched(&self, job: &Job<'_>) -> impl Iterator<Item = Wanted<'_>> {
        let is_fetched = job.way == Way::Parts;
        self.wanted(job.number).filter(move |_| is_fetched)
    }

    fn decode_window(
        &self,
        jobs: Vec<Job<'_>>,
        fetched: Vec<Cow<'_, [u8]>>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut fetched = fetched.into_iter();
        let with_parts = jobs.into_iter().map(|job| {
            let count = self.fetched(&job).count();
            (job, fetched.by_ref().take(count).collect::<Vec<_>>())
        });
        let results = self.engine().map(with_parts.collect(), |(job, parts)| {
            match job.way {
                Way::Parts => decode_parts(self, self.engine(), job.number, &parts, None, job.out),
                _ => self.decode_into(self.engine(), job.number, job.out),
            }?;
            progress.advance(job.out.len() as u64);
            progress.check()
        });
        results.into_iter().collect()
    }

    /// Divides jobs into windows that are read at the same time. A window has up to
    /// `max_bytes` stored bytes, or a single tensor that has more.
    fn windows<'a>(&self, jobs: Vec<Job<'a>>, max_bytes: u64) -> Vec<Vec<Job<'a>>> {
        let mut windows = Vec::new();
        let mut window = Vec::new();
        let mut stored_bytes = 0_u64;
        for job in jobs {
            let own_bytes = self.stored_len_bytes(&job);
            stored_bytes = stored_bytes.saturating_add(own_bytes);
            if stored_bytes > max_bytes && !window.is_empty() {
                windows.push(mem::take(&mut window));
                stored_bytes = own_bytes;
            }
            window.push(job);
        }
        windows.push(window);
        windows
    }

    fn stored_len_bytes(&self, job: &Job<'_>) -> u64 {
        self.tensors()[job.number].stored_len_bytes()
    }

    /// Returns the total length of the stored parts of a tensor that have to be read
    /// into memory.
    fn scratch_len_bytes(&self, job: &Job<'_>) -> u64 {
        let parts = self.tensors()[job.number].parts.iter();
        let read = parts.filter(|part| job.way == Way::Parts && !self.source(part).is_in_memory());
        read.map(StoredPart::len_bytes).sum()
    }
}

/// Splits the first `len` bytes off `rest`, which must be at least as long.
fn take_front<'a>(rest: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (front, others) = mem::take(rest).split_at_mut(len);
    *rest = others;
    front
}
