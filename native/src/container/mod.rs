//! Decodes a whole ZSTN container.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use zstn_core::bytes::part;
use zstn_core::catalog::{FileKind, recognise_named};
use zstn_core::container::zstn::integrity::{FileCheck, Integrity, StatisticsCheck, check_table};
use zstn_core::container::zstn::{CheckedFrame, ContainerLayout, ContainerPrefix, ContainerTail};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::buffers::Buffer;
use crate::finished_tensor::{self, Listed};
use crate::ordered::{Budget, for_each};
use crate::source::{Local, Source};
use crate::{Error, Job, Progress as _, Result};
use frame_runs::{Part, Stored, parts, runs, single};

mod frame_runs;
mod in_order;
mod restored_ranges;

pub(crate) use restored_ranges::RestoredRanges;

/// A container on this machine whose frames have all been checked as far as possible
/// without decoding, or a remote one, whose frames are checked when they arrive. No memory
/// is allocated for a decoded tensor before its frame has passed these checks.
pub(crate) struct Container<'a> {
    input: &'a Local,
    prefix: ContainerPrefix,
    /// `None` if the container has a single frame.
    tail: Option<ContainerTail>,
    parts: Vec<Part>,
}

impl<'a> Container<'a> {
    /// Reads everything except the tensors, and checks every frame unless the input is
    /// remote.
    pub(crate) fn parse(job: &Job, input: &'a Local) -> Result<Self> {
        let refuse = Error::place(input.name());
        let len_bytes = input.len_bytes();
        let head = input.head(HEAD_LEN_BYTES)?;
        match recognise_named(input.name(), &head, len_bytes).map_err(&refuse)? {
            FileKind::Zstn => {}
            FileKind::Delta => return Err(Error::needs_base(input.name())),
            FileKind::Safetensors => {
                return Err(Error::Usage(format!(
                    "{} is a safetensors file, not a packed one",
                    input.name()
                )));
            }
            _ => {
                return Err(Error::Usage(format!(
                    "{} was not packed from a safetensors file; `convert` turns it into one",
                    input.name()
                )));
            }
        }
        let prefix_len = ContainerPrefix::len_bytes(&head, len_bytes).map_err(&refuse)?;
        let prefix_bytes = input.head(prefix_len)?;
        let prefix = ContainerPrefix::parse(&prefix_bytes, len_bytes).map_err(&refuse)?;
        let mut fetch = |range| input.read(range);
        let (tail, parts) = match prefix.layout {
            ContainerLayout::Indexed => {
                let tail = ContainerTail::read(&prefix, &prefix_bytes, len_bytes, &mut fetch);
                let tail = tail.map_err(|error| error.placed(input.name()))?;
                let parts = parts(&tail.index);
                (Some(tail), parts)
            }
            ContainerLayout::SingleFrame => {
                let start = fetch(prefix.end()..len_bytes.min(prefix.end() + 8))?;
                let part = single(&start, len_bytes, &prefix).map_err(&refuse)?;
                (None, vec![part])
            }
        };
        let header = part(&prefix_bytes, prefix.header.clone());
        prefix.check_virtual_header(header).map_err(&refuse)?;
        drop(prefix_bytes);
        let container = Self {
            input,
            prefix,
            tail,
            parts,
        };
        if !input.is_remote() {
            container.check_frames(job)?;
        }
        Ok(container)
    }

    /// Checks every frame as far as possible without decoding it.
    fn check_frames(&self, job: &Job) -> Result<()> {
        let refuse = Error::place(self.name());
        let check = |run: &[Part]| {
            let bytes = Stored::read(job, self.input, run)?;
            run.iter().try_for_each(|part| {
                let checked = self.frame(part, bytes.of(part)).map(drop);
                checked.map_err(|error| refuse(self.named(part, error)))
            })
        };
        let runs = runs(&self.parts).into_iter().map(|run| {
            let stored_bytes = run.iter().map(Part::stored_len_bytes).sum();
            (run, stored_bytes)
        });
        let budget = Budget::of_bytes(job.memory().min(MAX_CHECKED_BYTES) / SHARES);
        for_each(job, runs, budget, |run| check(run))
    }

    /// Begins to fetch the frames of a remote input, which will be decoded in the order of
    /// `parts`, after all block tables.
    fn read_ahead<'p>(&self, job: &Job, parts: impl Iterator<Item = &'p Part>) {
        /// The maximum memory for bytes that have arrived early.
        const MAX_BYTES: u64 = 64 << 20;
        let max_bytes = MAX_BYTES.min(job.memory() / (2 * SHARES));
        let table = |part: &Part| self.integrity()?.table(part.number);
        let tables = self.parts.iter().filter_map(table);
        let frames = parts.map(|part| part.place.clone());
        self.input.read_ahead(tables.chain(frames), max_bytes);
    }

    fn integrity(&self) -> Option<&Integrity> {
        self.tail.as_ref()?.integrity.as_ref()
    }

    /// Adds the offset of a frame and the name of its tensor to an error.
    fn named(&self, part: &Part, error: zstn_core::Error) -> zstn_core::Error {
        let error = error.within(part.place.start);
        self.with_tensor(part, error)
    }

    /// Adds the name of a frame's tensor to an error.
    fn with_tensor(&self, part: &Part, error: zstn_core::Error) -> zstn_core::Error {
        match &self.tail {
            Some(tail) => error.tensor(&tail.index.records()[part.number].name),
            None => error,
        }
    }

    /// Parses the frame that `part` describes from its stored bytes.
    fn frame<'f>(&'f self, part: &Part, bytes: &'f [u8]) -> zstn_core::Result<CheckedFrame<'f>> {
        let expected = self.integrity().map(|integrity| (integrity, part.number));
        CheckedFrame::parse(bytes, part.len_bytes(), self.prefix.edition, expected)
    }

    /// Decodes a frame from its stored bytes. Compares the result with the digests in
    /// the file, and compares the frame with its block table, which is otherwise used
    /// only to read rows.
    fn decode_part(
        &self,
        job: &Job,
        part: &Part,
        stored: &[u8],
        table: Option<&BlockTable>,
    ) -> Result<Buffer<'static>> {
        let place = Error::place(self.input.name());
        let decode = || -> zstn_core::Result<Buffer<'static>> {
            let frame = self.frame(part, stored)?;
            let mut bytes = job.buffers.take(part.len_bytes())?;
            frame.decode(&job.engine, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = decode().map_err(|error| place(self.named(part, error)))?;
        if let Some(table) = table {
            let (table, stored) = ((table.start, &*table.bytes), (part.place.start, stored));
            let checked = check_table(table, stored, part.len_bytes(), self.prefix.edition);
            checked.map_err(|error| place(self.with_tensor(part, error)))?;
        }
        Ok(bytes)
    }

    /// Reads a frame and its block table.
    fn read_frame(&self, job: &Job, part: &Part) -> Result<StoredFrame<'a>> {
        Ok(StoredFrame {
            bytes: self.input.read_with(&job.buffers, part.place.clone())?,
            table: self.block_table(part)?,
        })
    }

    /// Reads the block table of a frame, if it has one.
    fn block_table(&self, part: &Part) -> Result<Option<BlockTable<'a>>> {
        let range = self.integrity().and_then(|all| all.table(part.number));
        let table = range.map(|range| {
            Ok(BlockTable {
                start: range.start,
                bytes: self.input.read(range)?,
            })
        });
        table.transpose()
    }

    /// Returns the stored statistics, with which decoded tensors are compared.
    fn statistics(&self) -> Result<StatisticsCheck<'_>> {
        let Some(tail) = &self.tail else {
            return Ok(StatisticsCheck::default());
        };
        let read = |range| self.input.read(range);
        let check = StatisticsCheck::new(&self.header()?, &self.prefix, tail, read);
        check.map_err(|error| error.placed(self.input.name()))
    }

    pub(crate) fn original_len_bytes(&self) -> u64 {
        self.prefix.original_len_bytes()
    }

    /// Reads the header: of the original file, or a virtual one.
    pub(crate) fn header(&self) -> Result<Cow<'a, [u8]>> {
        self.input.read(self.prefix.header.clone())
    }

    /// Returns the bytes of the original file before its data.
    pub(crate) fn original_head(&self) -> Result<Vec<u8>> {
        match self.prefix.has_virtual_header {
            true => Ok(Vec::new()),
            false => Ok(self.prefix.original_head(&self.header()?)),
        }
    }

    /// Returns the packed file.
    pub(crate) fn input(&self) -> &'a Local {
        self.input
    }

    /// Returns whether the header is virtual, because the original is not a safetensors
    /// file.
    pub(crate) fn has_virtual_header(&self) -> bool {
        self.prefix.has_virtual_header
    }

    /// Returns whether decoding compares every byte with digests in the file.
    pub(crate) fn has_digests(&self) -> bool {
        self.integrity().is_some_and(Integrity::is_complete)
    }

    /// Returns the number of distinct frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.parts.len()
    }

    /// Decodes every frame and passes its bytes to `sink` from many threads, once for
    /// each span of the data buffer that they fill. Everything in the file is verified:
    /// digests, statistics, block tables and, unless it is `fast`, the SHA-256 of the whole
    /// file, which one thread computes in order.
    pub(crate) fn decode(
        &self,
        job: &Job,
        fast: bool,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let statistics = self.statistics()?;
        let refuse = Error::place(self.input.name());
        let sink = |span: &Range<u64>, bytes: &[u8]| {
            statistics
                .check(&job.engine, span, bytes)
                .map_err(&refuse)?;
            sink(span.clone(), bytes)
        };
        job.begin(self.prefix.data_len_bytes);
        match self.file_check().filter(|_| !fast) {
            Some(check) => self.decode_and_hash(job, check, sink),
            // Threads of the engine must not wait for a server.
            None if self.input.is_remote() => self.decode_in_order(job, sink, |_| Ok(())),
            None => self.decode_in_runs(job, sink),
        }
    }

    fn decode_in_runs(
        &self,
        job: &Job,
        sink: impl Fn(&Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let finished = Finished::new(self, job)?;
        let decode = |run: &&[Part]| {
            let stored = Stored::read(job, self.input, run)?;
            for part in *run {
                let stored = stored.of(part);
                let table = self.block_table(part)?;
                let bytes = self.decode_part(job, part, stored, table.as_ref())?;
                for span in part.spans() {
                    sink(span, &bytes)?;
                    job.advance(bytes.len() as u64);
                }
                if let Some(finished) = &finished {
                    finished.report(part, finished_tensor::frame(stored));
                }
            }
            Ok(())
        };
        let runs = runs(&self.parts).into_iter();
        let runs = runs.map(|run| (run, run.iter().map(Part::len_bytes).sum()));
        for_each(job, runs, Budget::of_bytes(job.memory() / SHARES), decode)
    }

    /// Decodes like [`Container::decode`], and hashes the data buffer in order on one
    /// thread while other threads decode the following bytes.
    fn decode_and_hash(
        &self,
        job: &Job,
        check: FileCheck,
        sink: impl Fn(&Range<u64>, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut check = Some(check.with(&self.original_head()?));
        self.decode_in_order(job, sink, |bytes| {
            job.feed_bytes(&bytes, |piece| {
                check = check.take().map(|check| check.with(piece));
            })
        })?;
        let compared = check.map_or(Ok(()), FileCheck::finish);
        compared.map_err(Error::place(self.input.name()))
    }
}

/// The stored bytes of a frame, and its block table.
struct StoredFrame<'a> {
    bytes: Buffer<'a>,
    table: Option<BlockTable<'a>>,
}

/// The block table of a frame.
struct BlockTable<'a> {
    /// Offset in the file.
    start: u64,
    bytes: Cow<'a, [u8]>,
}

/// The number of equal shares of the allowed memory: one for the stored bytes of the
/// items that are decoded at the same time, one for their decoded bytes, and one for
/// intermediate deltas or planes.
pub(crate) const SHARES: u64 = 3;

/// Returns the budget for items of these decoded lengths whose results are consumed in
/// order.
pub(crate) fn decoded_in_order(job: &Job, lens_bytes: impl Iterator<Item = u64>) -> Budget {
    /// A larger budget would not make decoding faster, because long tensors are decoded
    /// by several threads each.
    const MAX_BYTES: u64 = 256 << 20;
    let max_bytes = MAX_BYTES.min(job.memory() / SHARES);
    Budget::for_threads(job, lens_bytes.max().unwrap_or(0), max_bytes)
}

/// The maximum memory for frames that are checked before decoding, even if the job
/// allows more. A larger budget would not make the checks faster.
pub(crate) const MAX_CHECKED_BYTES: u64 = 512 << 20;

/// Reports the decoded tensors of a container to the caller's progress.
struct Finished<'a> {
    container: &'a Container<'a>,
    job: &'a Job<'a>,
    listed: Listed,
    /// The numbers of the alias records, by the number of the record that they refer
    /// to.
    aliases: HashMap<usize, Vec<usize>>,
}

impl<'a> Finished<'a> {
    /// Returns `None` if the caller's progress does not want to receive tensors.
    fn new(container: &'a Container<'a>, job: &'a Job<'a>) -> Result<Option<Self>> {
        let tail = container.tail.as_ref();
        let Some(tail) = tail.filter(|_| job.wants_tensors()) else {
            return Ok(None);
        };
        let mut aliases: HashMap<usize, Vec<usize>> = HashMap::new();
        for number in 0..tail.index.records().len() {
            let owner = tail.index.frame(number).0;
            if owner != number {
                aliases.entry(owner).or_default().push(number);
            }
        }
        let listed = Listed::of(&container.header()?, container.prefix.data_len_bytes);
        Ok(Some(Self {
            container,
            job,
            listed,
            aliases,
        }))
    }

    /// Reports that the frame of `part`, which stores its tensor as `storage`
    /// describes, has been decoded, and reports all aliases of its tensor.
    fn report(&self, part: &Part, storage: String) {
        let Some(tail) = &self.container.tail else {
            return;
        };
        let records = tail.index.records();
        let len_bytes = part.len_bytes();
        let report = |number: usize, storage: String, packed_bytes: u64| {
            let name = &records[number].name;
            let tensor = self.listed.finished(name, len_bytes, storage, packed_bytes);
            self.job.tensor(&tensor);
        };
        report(part.number, storage, part.place.end - part.place.start);
        for &number in self.aliases.get(&part.number).into_iter().flatten() {
            report(
                number,
                finished_tensor::alias(&records[part.number].name),
                0,
            );
        }
    }
}
