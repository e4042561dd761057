//! Plans the reads that are needed to sketch a tensor.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::container::model_delta::ShortDigest;
use zstn_core::digest;
use zstn_core::model::{Model, Rows, StoredPart};
use zstn_core::sketch::{SketchedTensor, runs};

use crate::{Engine, Error, Reader, Result};

/// Runs that are at most this far apart are read together.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A tensor, with the byte ranges that are read to sketch it.
pub(super) struct TensorPlan {
    pub(super) number: usize,
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
    pub(super) fn new(model: &Model, number: usize, table: Option<&[u8]>, digests: bool) -> Self {
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
    pub(super) fn wanted(&self, model: &Model) -> Vec<(usize, Range<u64>)> {
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
    pub(super) fn sketch(
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
