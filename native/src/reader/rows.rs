//! Reads parts of a tensor: ranges of its outermost dimension.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::model::Rows;

use super::Reader;
use crate::source::{Source, parallel, read_parts};
use crate::{Engine, Error, Result, Tensor};

/// Rows of a tensor and the byte ranges to read for them, made by
/// [`Reader::plan_rows`].
#[derive(Debug, Clone)]
pub struct RowsPlan {
    rows: Rows,
    /// The plan for the bytes of the base's tensor that the rows are decoded with.
    base: Option<Box<Self>>,
    /// The number of stored bytes of the whole tensor, including those in the bases
    /// that it requires.
    stored_len_bytes: u64,
}

impl RowsPlan {
    /// Returns the name of the tensor.
    #[must_use]
    pub fn name(&self) -> &str {
        self.rows.name()
    }

    /// Returns the shape of the rows: the tensor's shape with the outermost dimension
    /// replaced.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.rows.shape()
    }

    /// Returns the range of the tensor's bytes that the rows occupy.
    #[must_use]
    pub fn span(&self) -> Range<u64> {
        self.rows.span()
    }

    /// Returns whether the tensor cannot be read in part and is read as a whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rows.is_whole()
    }

    /// Returns the number of bytes that are read for the whole tensor, including the
    /// base.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored_len_bytes
    }

    /// Returns the number of bytes that are read for the rows, including the base;
    /// `None` if [`RowsPlan::is_whole`].
    #[must_use]
    pub fn fetched_len_bytes(&self) -> Option<u64> {
        let own = self.rows.fetched_len_bytes()?;
        let of_base = self.base.as_deref().map_or(0, |base| {
            let cut = base.fetched_len_bytes();
            cut.unwrap_or(base.stored_len_bytes)
        });
        Some(own + of_base)
    }
}

/// A plan, with the reader that reads its ranges.
struct Step<'a> {
    reader: &'a Reader,
    plan: &'a RowsPlan,
}

impl Reader {
    /// Reads the `rows` of the tensor called `name`, a range of its outermost
    /// dimension. If the tensor is stored in blocks, only the blocks that contain the
    /// rows are fetched. For a tensor that is stored as a delta, those blocks of the
    /// delta and of the base are fetched if the base was packed with digests.
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Tensor> {
        self.read_planned(&self.plan_rows(name, rows)?)
    }

    /// Returns the total length in bytes of several ranges of rows of a tensor.
    ///
    /// # Errors
    /// The model has no tensor called `name`.
    pub fn row_ranges_len_bytes(&self, name: &str, ranges: &[Range<u64>]) -> Result<u64> {
        let tensor = self.find(name)?;
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let row_bytes = tensor.len_bytes().checked_div(rows).unwrap_or(0);
        let rows = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start));
        Ok(rows
            .fold(0_u64, u64::saturating_add)
            .saturating_mul(row_bytes))
    }

    /// Reads several ranges of rows of a tensor into `out`, in the order of `ranges`.
    /// From a server the ranges are fetched at the same time, or the whole tensor is
    /// fetched if that takes fewer bytes.
    ///
    /// # Errors
    /// The errors of [`Reader::read_rows`]; an `out` of another length than
    /// [`Reader::row_ranges_len_bytes`].
    pub fn read_row_ranges_into(
        &self,
        name: &str,
        ranges: &[Range<u64>],
        mut out: &mut [u8],
    ) -> Result<()> {
        let are_remote = self.all_sources().any(Source::is_remote);
        let at_once = if are_remote {
            parallel::READS_AT_ONCE
        } else {
            1
        };
        let plans = parallel::run(ranges.len(), at_once, |number| {
            self.plan_rows(name, ranges[number].clone())
        })?;
        let tensor = self.find(name)?;
        let len_bytes: u64 = plans
            .iter()
            .map(|plan| plan.span().end - plan.span().start)
            .sum();
        if out.len() as u64 != len_bytes {
            let detail = format!("{len_bytes} bytes do not fit into {}", out.len());
            return Err(Error::Usage(detail));
        }
        let mut put = |bytes: &[u8]| {
            let (to, rest) = std::mem::take(&mut out).split_at_mut(bytes.len());
            to.copy_from_slice(bytes);
            out = rest;
        };
        let mut fetched = plans.iter().map(RowsPlan::fetched_len_bytes);
        let fetched = fetched.try_fold(0, |sum: u64, len| sum.checked_add(len?));
        let whole_bytes = plans.iter().map(RowsPlan::stored_len_bytes).max();
        if plans.len() > 1 && fetched.is_none_or(|fetched| Some(fetched) >= whole_bytes) {
            let mut whole = zstn_core::bytes::buffer(tensor.len_bytes())?;
            self.read_into(name, &mut whole)?;
            for plan in &plans {
                put(zstn_core::bytes::part(&whole, plan.span()));
            }
            return Ok(());
        }
        let read = |number: usize| self.read_planned(&plans[number]);
        for rows in parallel::run(plans.len(), at_once, read)? {
            put(&rows.bytes);
        }
        Ok(())
    }

    /// Plans the reads for the `rows` of the tensor called `name`. Reads the block
    /// tables that were not loaded together with the index.
    pub fn plan_rows(&self, name: &str, rows: Range<u64>) -> Result<RowsPlan> {
        let number = self.number(name)?;
        let table = self.block_table(number)?;
        let rows = self.model().rows(number, rows, table.as_deref());
        self.with_base_plan(number, rows.map_err(Error::place(self.name()))?)
    }

    /// Plans the reads for the bytes `span` of a tensor.
    fn plan_part(&self, name: &str, span: Range<u64>) -> Result<RowsPlan> {
        let number = self.number(name)?;
        let table = self.block_table(number)?;
        let part = self.model().part(number, span, table.as_deref());
        self.with_base_plan(number, part.map_err(Error::place(self.name()))?)
    }

    fn with_base_plan(&self, number: usize, rows: Rows) -> Result<RowsPlan> {
        let base = match (rows.base(), self.base()) {
            (Some(span), Some(base)) => Some(base.plan_part(rows.name(), span)?),
            _ => None,
        };
        Ok(RowsPlan {
            stored_len_bytes: self.stored_with_bases(number),
            base: base.map(Box::new),
            rows,
        })
    }

    /// Returns the number of bytes that are read for a whole tensor, including its
    /// bases.
    fn stored_with_bases(&self, number: usize) -> u64 {
        let tensor = &self.tensors()[number];
        let base = tensor.base.and(self.base());
        let in_base = base.and_then(|base| Some((base, base.model().find(&tensor.name).ok()?)));
        let of_base = in_base.map_or(0, |(base, number)| base.stored_with_bases(number));
        tensor.stored_len_bytes() + of_base
    }

    /// Reads the block table that the model needs to plan for rows.
    fn block_table(&self, number: usize) -> Result<Option<Cow<'_, [u8]>>> {
        let mut table = None;
        loop {
            let fetched = table.as_deref().unwrap_or_default();
            let Some((file, range)) = self.model().block_table(number, fetched) else {
                return Ok(table);
            };
            let source = &self.sources()[file];
            table = Some(source.read(range)?);
            source.check_unchanged()?;
        }
    }

    /// Reads the rows of a plan that [`Reader::plan_rows`] made. All ranges, including
    /// those in the base, are read at the same time; a base that cannot be read in part
    /// is read afterwards.
    pub fn read_planned(&self, plan: &RowsPlan) -> Result<Tensor> {
        let tensor = self.find(plan.name())?;
        let first = Step { reader: self, plan };
        let steps: Vec<Step> = iter::successors(Some(first), Step::base).collect();
        let wanted: Vec<_> = steps.iter().flat_map(Step::wanted).collect();
        let mut read = read_parts(&wanted)?.into_iter();
        let mut fetched: Vec<Vec<Cow<[u8]>>> = Vec::with_capacity(steps.len());
        for step in &steps {
            fetched.push(read.by_ref().take(step.wanted().count()).collect());
        }
        let mut bytes = None;
        for (step, fetched) in steps.iter().zip(fetched).rev() {
            bytes = Some(step.decode(&self.engine, &fetched, bytes.as_deref())?);
        }
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: plan.shape().to_vec(),
            bytes: bytes.unwrap_or_default(),
        })
    }
}

impl<'a> Step<'a> {
    /// Returns the step that reads from the base, if the plan has one.
    fn base(&self) -> Option<Self> {
        Some(Self {
            reader: self.reader.base()?,
            plan: self.plan.base.as_deref()?,
        })
    }

    /// Returns the ranges to read; none if the tensor is read as a whole.
    fn wanted(&self) -> impl Iterator<Item = (&'a dyn Source, Range<u64>)> + use<'a> {
        let sources = self.reader.sources();
        let ranges = self.plan.rows.ranges();
        ranges.map(move |(file, range)| (&*sources[file], range))
    }

    /// Decodes the rows from their fetched ranges and from the bytes of the base.
    fn decode(
        &self,
        engine: &Engine,
        fetched: &[Cow<[u8]>],
        base: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        let (reader, rows) = (self.reader, &self.plan.rows);
        if rows.is_whole() {
            let mut bytes = reader.decode(engine, reader.number(rows.name())?)?;
            let span = rows.span();
            bytes.truncate(index(span.end));
            bytes.drain(..index(span.start));
            return Ok(bytes);
        }
        let fetched: Vec<&[u8]> = fetched.iter().map(|bytes| &**bytes).collect();
        let bytes = rows.decode(engine, &fetched, base);
        let mut files = rows.ranges().map(|(file, _)| &reader.sources()[file]);
        files.try_for_each(|source| source.check_unchanged())?;
        bytes.map_err(Error::place(reader.name()))
    }
}
