//! Makes sketches of checkpoints: plans the reads that each tensor needs, and reads them in
//! batches.

use std::borrow::Cow;
use std::ops::Range;
use std::{iter, mem};

use zstn_core::container::model_delta::ShortDigest;
use zstn_core::digest;
use zstn_core::engine::Engine as _;
use zstn_core::model::{Model, Rows, StoredPart};
use zstn_core::sketch::{Sketch, SketchedTensor, runs};

use crate::source::{FileSource, Input, Location, Source, read_parts};
use crate::{Engine, Error, Job, Progress as _, Reader, Result, Sink, View};

/// The maximum number of bytes in a batch of reads. A single tensor may exceed it.
const BATCH_BYTES: u64 = 32 << 20;

/// Selects the tensors that are read in full in order to digest them. Digests that are
/// stored in the files cost nothing and are always used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Digests {
    /// No tensors: only samples are read.
    Stored,
    /// The tensors of local files.
    #[default]
    Local,
    /// All tensors; a plain checkpoint on a server is fetched completely.
    All,
}

/// Options for [`sketch`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct SketchOptions {
    bases: Vec<Input>,
    digests: Digests,
}

impl SketchOptions {
    /// Reads a delta with the base that it was packed against. If the base is a delta
    /// itself, the next call adds the base's own base, and so on. The sketch identifies
    /// the base by its [`Sketch::identity`], if all of its tensors have digests.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Sets which tensors are read in full in order to digest them; the default is the
    /// tensors of local files.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = digests;
        self
    }
}

/// Sketches a checkpoint of any supported format, in one file or several
/// (docs/formats/sketch.md). From files on servers, only samples and the bytes needed
/// to decode them are read, unless [`Digests::All`] is set; tensors that can only be
/// decoded as a whole, and the tensors of deltas, are read in full.
///
/// # Errors
/// An input that is refused or cannot be read; [`Error::NeedsBase`] for a delta without
/// its base; [`Error::Changed`] if the input was written to meanwhile.
pub fn sketch(job: &Job, input: impl Into<Input>, options: &SketchOptions) -> Result<Sketch> {
    let input = input.into();
    job.run(|job| {
        let reader = job.open(&input, &options.bases, View::Stored)?;
        sketch_reader(job, &reader, options.digests)
    })
}

/// A sketch that was saved to a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SavedSketch {
    /// The sketch that was saved.
    pub sketch: Sketch,
    /// Length of the file, in bytes.
    pub len_bytes: u64,
}

/// Sketches a checkpoint like [`sketch()`] and writes the sketch to `output`.
///
/// # Errors
/// The errors of [`sketch()`]; an output from which the checkpoint or a base is read,
/// or which exists and may not be replaced; I/O errors.
pub fn save_sketch<'a>(
    job: &Job,
    input: impl Into<Input>,
    output: impl Into<Sink<'a>>,
    options: &SketchOptions,
) -> Result<SavedSketch> {
    let (input, sink) = (input.into(), output.into());
    job.run(|job| {
        let mut output = sink.file(&job.http)?;
        // An index is read before any source is open, so its file is opened here for the
        // check.
        let inputs = iter::once(&input).chain(&options.bases);
        let indices = inputs.filter_map(Input::location);
        let indices = indices.filter(|location| location.is_index());
        let indices: Vec<FileSource> = indices
            .filter_map(|location| match location {
                Location::Path(path) => FileSource::open(path).ok(),
                _ => None,
            })
            .collect();
        let reader = job.open(&input, &options.bases, View::Stored)?;
        let indices = indices.iter().map(|index| index as &dyn Source);
        let sources: Vec<_> = reader.all_sources().chain(indices).collect();
        output.check_inputs(&sources)?;
        let sketch = sketch_reader(job, &reader, options.digests)?;
        let bytes = sketch.to_bytes(&job.engine);
        output.write(&bytes)?;
        output.complete(job)?;
        Ok(SavedSketch {
            sketch,
            len_bytes: bytes.len() as u64,
        })
    })
}

/// Sketches a checkpoint that is already open.
pub(super) fn sketch_reader(job: &Job, reader: &Reader, digests: Digests) -> Result<Sketch> {
    let base = match reader.base() {
        None => None,
        Some(base) => {
            // A base in another dtype is computed from one checkpoint, which has to be found.
            let base = match base.merged_from() {
                [only] => only,
                _ => base,
            };
            sketch_reader(&job.quiet(), base, digests)?.identity()
        }
    };
    let is_remote = reader.all_sources().any(Source::is_remote);
    let digests = match digests {
        Digests::Stored => false,
        Digests::Local => !is_remote,
        Digests::All => true,
    };
    let mut tensors = Vec::with_capacity(reader.tensors().len());
    let plans = plans(reader, digests)?;
    let model = reader.model();
    let lens = |plan: &TensorPlan| -> u64 {
        let ranges = plan.wanted(model).into_iter();
        ranges.map(|(_, range)| range.end - range.start).sum()
    };
    job.begin(plans.iter().map(lens).sum());
    let (mut batch, mut batch_bytes) = (Vec::new(), 0_u64);
    for plan in plans {
        let len = lens(&plan);
        if batch_bytes.saturating_add(len) > BATCH_BYTES && !batch.is_empty() {
            tensors.extend(read_batch(job, reader, mem::take(&mut batch), digests)?);
            job.advance(mem::take(&mut batch_bytes));
        }
        batch_bytes = batch_bytes.saturating_add(len);
        batch.push(plan);
    }
    tensors.extend(read_batch(job, reader, batch, digests)?);
    job.advance(batch_bytes);
    reader.all_sources().try_for_each(Source::check_unchanged)?;
    Sketch::new(model.original_len_bytes(), base, tensors).map_err(Error::place(reader.name()))
}

/// Plans the reads for all tensors. The block tables that were not loaded together with
/// the index are read here.
fn plans(reader: &Reader, digests: bool) -> Result<Vec<TensorPlan>> {
    let model = reader.model();
    let tables: Vec<_> = (0..model.tensors().len())
        .map(|number| match model.tensors()[number].base {
            None => model.block_table(number, &[]),
            // Such a tensor is read together with the tensor of the base.
            Some(_) => None,
        })
        .collect();
    let wanted = tables.iter().flatten();
    let wanted = wanted.map(|(file, range)| (&*reader.sources()[*file], range.clone()));
    let mut read = read_parts(&wanted.collect::<Vec<_>>())?.into_iter();
    let plan = |(number, table): (usize, &Option<_>)| {
        let table = table.as_ref().and_then(|_| read.next());
        TensorPlan::new(model, number, table.as_deref(), digests)
    };
    Ok(tables.iter().enumerate().map(plan).collect())
}

fn read_batch(
    job: &Job,
    reader: &Reader,
    plans: Vec<TensorPlan>,
    digests: bool,
) -> Result<Vec<SketchedTensor>> {
    let model = reader.model();
    let wanted: Vec<Vec<_>> = plans.iter().map(|plan| plan.wanted(model)).collect();
    let ranges = wanted.iter().flatten();
    let ranges = ranges.map(|(file, range)| (&*reader.sources()[*file], range.clone()));
    let mut read = read_parts(&ranges.collect::<Vec<_>>())?.into_iter();
    let with_bytes = plans.into_iter().zip(&wanted).map(|(plan, wanted)| {
        let bytes: Vec<_> = read.by_ref().take(wanted.len()).collect();
        (plan, bytes)
    });
    let sketched = job.engine.map(with_bytes.collect(), |(plan, bytes)| {
        plan.sketch(&job.engine, reader, &bytes, digests)
    });
    sketched.into_iter().collect()
}

/// The maximum distance, in bytes, between sampled runs that are read together.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A tensor, with the byte ranges that are read to sketch it.
struct TensorPlan {
    number: usize,
    digest: Option<ShortDigest>,
    way: Way,
}

enum Way {
    /// The sampled runs of a plain tensor are read.
    Runs(Vec<Range<u64>>),
    /// The rows that contain the sampled runs are read.
    Rows(Vec<Rows>),
    /// All stored bytes are read.
    Whole(Range<u64>),
    /// The tensor is decoded together with the tensor of the base.
    WithBase,
}

impl TensorPlan {
    /// Plans the reads for tensor `number`. `table` contains its block table if that
    /// had to be read from the file. If `digests` is true, a tensor without a stored
    /// digest is read in full.
    fn new(model: &Model, number: usize, table: Option<&[u8]>, digests: bool) -> Self {
        let tensor = &model.tensors()[number];
        let part = tensor.parts.first();
        let stored = part.and_then(|part| model.files()[part.file].tensor_digest(part.number));
        let way = match part {
            Some(part) if tensor.base.is_none() => {
                let is_whole = digests && stored.is_none();
                Self::cut(model, number, part, table)
                    .filter(|_| !is_whole)
                    .unwrap_or_else(|| Way::Whole(part.stored.clone()))
            }
            _ => Way::WithBase,
        };
        Self {
            number,
            digest: stored,
            way,
        }
    }

    /// Plans to read only part of the tensor; returns `None` if that is not possible.
    fn cut(model: &Model, number: usize, part: &StoredPart, table: Option<&[u8]>) -> Option<Way> {
        let tensor = &model.tensors()[number];
        let runs = runs(tensor.dtype, tensor.len_bytes());
        if model.plain_part(number).is_some() {
            let start = part.stored.start;
            let in_file = runs.iter().map(|run| start + run.start..start + run.end);
            return Some(Way::Runs(in_file.collect()));
        }
        let rows = *tensor.shape.first()?;
        let row_bytes = tensor
            .len_bytes()
            .checked_div(rows)
            .filter(|&len| len > 0)?;
        let plan = |window: Range<u64>| {
            let rows = window.start / row_bytes..window.end.div_ceil(row_bytes);
            let plan = model.rows(number, rows, table).ok()?;
            (!plan.is_whole()).then_some(plan)
        };
        let rows: Option<Vec<Rows>> = windows(&runs).into_iter().map(plan).collect();
        let rows = rows?;
        let fetched = rows.iter().filter_map(Rows::fetched_len_bytes);
        // Reading the whole tensor takes only one read.
        (fetched.sum::<u64>() < part.len_bytes() / 2).then_some(Way::Rows(rows))
    }

    /// Returns the ranges to read, each with its file number.
    fn wanted(&self, model: &Model) -> Vec<(usize, Range<u64>)> {
        let parts = &model.tensors()[self.number].parts;
        let file = parts.first().map_or(0, |part| part.file);
        match &self.way {
            Way::Runs(runs) => runs.iter().map(|run| (file, run.clone())).collect(),
            Way::Rows(rows) => rows.iter().flat_map(Rows::ranges).collect(),
            Way::Whole(range) => vec![(file, range.clone())],
            Way::WithBase => Vec::new(),
        }
    }

    /// Returns the sketch of the tensor, from the bytes of [`TensorPlan::wanted`].
    fn sketch(
        self,
        engine: &Engine,
        reader: &Reader,
        read: &[Cow<'_, [u8]>],
        digests: bool,
    ) -> Result<SketchedTensor> {
        let refuse = Error::place(reader.name());
        let tensor = &reader.tensors()[self.number];
        let runs = runs(tensor.dtype, tensor.len_bytes());
        let mut own_digest = self.digest;
        let mut of_whole = |bytes: &[u8]| {
            if own_digest.is_none() && digests {
                own_digest = digest::of(engine, bytes).first_chunk().copied();
            }
            let parts = runs.iter();
            parts
                .flat_map(|run| zstn_core::bytes::part(bytes, run.clone()).to_vec())
                .collect()
        };
        let samples: Vec<u8> = match self.way {
            Way::Runs(_) => read.concat(),
            Way::Rows(rows) => {
                let mut read = read.iter();
                let mut decoded = Vec::with_capacity(rows.len());
                for rows in &rows {
                    let own: Vec<&[u8]> = read
                        .by_ref()
                        .take(rows.ranges().len())
                        .map(|bytes| &**bytes)
                        .collect();
                    decoded.push((
                        rows.span(),
                        rows.decode(engine, &own, None).map_err(&refuse)?,
                    ));
                }
                let of_run = |run: &Range<u64>| {
                    let holds = |span: &Range<u64>| span.start <= run.start && run.end <= span.end;
                    let (span, bytes) = decoded.iter().find(|(span, _)| holds(span))?;
                    let part = run.start - span.start..run.end - span.start;
                    Some(zstn_core::bytes::part(bytes, part).to_vec())
                };
                runs.iter().filter_map(of_run).flatten().collect()
            }
            Way::Whole(_) => {
                let parts: Vec<&[u8]> = read.iter().map(|bytes| &**bytes).collect();
                let model = reader.model();
                let bytes = model.decode(engine, self.number, &parts, None);
                of_whole(&bytes.map_err(&refuse)?)
            }
            Way::WithBase => of_whole(&reader.read(&tensor.name)?.bytes),
        };
        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
        SketchedTensor::new(name, tensor.dtype, shape, own_digest, samples).map_err(&refuse)
    }
}

/// Joins runs that are close together into windows.
fn windows(runs: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut windows: Vec<Range<u64>> = Vec::new();
    for run in runs {
        match windows.last_mut() {
            Some(last) if run.start - last.end <= MAX_GAP_BYTES => last.end = run.end,
            _ => windows.push(run.clone()),
        }
    }
    windows
}
