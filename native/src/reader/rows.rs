//! Reads parts of a tensor: ranges of its outermost dimension.

use std::borrow::{Borrow, Cow};
use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::model::Rows;

use super::decode::ReadTensor;
use super::plan_rows::PlanRows;
use super::state_machine::{self, Need, Opened, Work};
use super::{Reader, tensor};
use crate::{Engine, Error, Result, Tensor};

/// Rows of a tensor and the byte ranges to read for them, made by
/// [`Reader::plan_rows`].
#[derive(Debug, Clone)]
pub struct RowsPlan {
    rows: Rows,
    /// The plan for the bytes of the base's tensor that the rows are decoded with.
    base: Option<Box<Self>>,
    /// The number of stored bytes of the whole tensor, including the stored bytes in
    /// the bases that it requires.
    stored_len_bytes: u64,
}

impl RowsPlan {
    /// Returns the plan for `rows` of a tensor that depends on no base.
    pub(super) fn without_base(model: &Reader, number: usize, rows: Rows) -> Self {
        Self {
            rows,
            base: None,
            stored_len_bytes: model.tensors()[number].stored_len_bytes(),
        }
    }

    /// Returns the plan for a tensor and its bases: for each level, the rows and the
    /// number of stored bytes of the whole tensor. There is at least one level.
    pub(super) fn of_levels(levels: Vec<(Rows, u64)>) -> Self {
        let levels = levels.into_iter().rev();
        let plan = levels.fold(None, |base, (rows, stored_len_bytes)| {
            Some(Self {
                rows,
                base: base.map(Box::new),
                stored_len_bytes,
            })
        });
        plan.expect("a part is planned at the level of its tensor first")
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

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

    /// Returns whether a whole tensor is read, of this model or of a base.
    pub(super) fn reads_whole(&self) -> bool {
        self.is_whole() || self.base.as_deref().is_some_and(Self::reads_whole)
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

/// Returns the number of bytes that are read for a whole tensor, including its bases.
pub(super) fn stored_with_bases(model: &impl Opened, number: usize) -> u64 {
    let tensor = &model.model().tensors()[number];
    let base = tensor.base.and(model.base());
    let in_base = base.and_then(|base| Some((base, model.in_base(number, base).ok()?)));
    let of_base = in_base.map_or(0, |(base, number)| stored_with_bases(base, number));
    tensor.stored_len_bytes() + of_base
}

/// The work of reading the rows of a plan. All ranges, including the ranges in bases,
/// are read at the same time. If a base's tensor cannot be read in part, it is read as
/// a whole.
pub(super) struct ReadRows<'a, R, P> {
    plan: P,
    /// The models of the plan and of the plans of its bases, up to the first one that is
    /// read as a whole, with the bytes of their ranges.
    levels: Vec<(R, Vec<Cow<'a, [u8]>>)>,
    /// The tensor that is read as a whole, at the level after the last one of `levels`.
    whole: Option<ReadTensor<'a, R>>,
    is_fetched: bool,
}

impl<R: Opened, P: Borrow<RowsPlan>> ReadRows<'_, R, P> {
    pub(super) fn new(model: &R, plan: P) -> Result<Self> {
        let (mut levels, mut whole) = (Vec::new(), None);
        let first: &RowsPlan = plan.borrow();
        let mut next = Some((model.clone(), first));
        while let Some((model, plan)) = next {
            if plan.is_whole() {
                whole = Some(ReadTensor::new(&model, model.number(plan.name())?)?);
                break;
            }
            next = model.base().cloned().zip(plan.base.as_deref());
            levels.push((model, Vec::new()));
        }
        Ok(Self {
            plan,
            levels,
            whole,
            is_fetched: false,
        })
    }

    /// Returns the plans of all levels, including the level of `whole`.
    fn plans(&self) -> impl Iterator<Item = &RowsPlan> {
        let first: &RowsPlan = self.plan.borrow();
        std::iter::successors(Some(first), |plan| plan.base.as_deref())
    }
}

impl<'a, R: Opened, P: Borrow<RowsPlan>> Work<'a> for ReadRows<'a, R, P> {
    type Output = Vec<u8>;

    fn needs(&mut self) -> Result<Vec<Need>> {
        if self.is_fetched {
            return Ok(Vec::new());
        }
        let levels = self.plans().take(self.levels.len()).enumerate();
        let in_part = levels.flat_map(|(level, plan)| {
            plan.rows.ranges().map(move |(file, range)| Need {
                level,
                file,
                range,
                is_compared: false,
            })
        });
        let mut needs: Vec<_> = in_part.collect();
        let first = self.levels.len();
        if let Some(whole) = &mut self.whole {
            needs.extend(whole.needs()?.into_iter().map(|need| Need {
                level: first + need.level,
                ..need
            }));
        }
        Ok(needs)
    }

    fn supply(&mut self, mut needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        let counts: Vec<_> = self.plans().map(|plan| plan.rows.ranges().len()).collect();
        let mut bytes = bytes.into_iter();
        let mut in_part = 0;
        for ((_, fetched), count) in self.levels.iter_mut().zip(counts) {
            *fetched = bytes.by_ref().take(count).collect();
            in_part += count;
        }
        if let Some(whole) = &mut self.whole {
            whole.supply(needs.split_off(in_part), bytes.collect())?;
        }
        self.is_fetched = true;
        Ok(())
    }

    fn finish(mut self, engine: &Engine) -> Result<Vec<u8>> {
        let whole = self.whole.take();
        let plans: Vec<_> = self.plans().collect();
        let last = self.levels.len();
        let mut decoded = match whole {
            None => None,
            Some(whole) => {
                let mut bytes = whole.finish(engine)?;
                let span = plans[last].span();
                bytes.truncate(index(span.end));
                bytes.drain(..index(span.start));
                Some(bytes)
            }
        };
        for ((model, fetched), plan) in self.levels.iter().zip(&plans).rev() {
            let fetched: Vec<&[u8]> = fetched.iter().map(|bytes| &**bytes).collect();
            let bytes = plan.rows.decode(engine, &fetched, decoded.as_deref());
            let mut files = plan.rows.ranges().map(|(file, _)| file);
            files.try_for_each(|file| model.check_unchanged(file))?;
            decoded = Some(bytes.map_err(Error::place(model.name()))?);
        }
        Ok(decoded.unwrap_or_default())
    }
}

impl Reader {
    /// Reads the `rows` of the tensor called `name`, a range of its outermost
    /// dimension. If the tensor is stored in blocks, only the blocks that contain the
    /// rows are fetched. For a tensor that is stored as a delta, the corresponding
    /// blocks of the delta and of the base are fetched, provided that the base was
    /// packed with digests.
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Tensor> {
        self.read_planned(&self.plan_rows(name, rows)?)
    }

    /// Plans the reads for the `rows` of the tensor called `name`. Reads the block
    /// tables that were not loaded together with the index.
    pub fn plan_rows(&self, name: &str, rows: Range<u64>) -> Result<RowsPlan> {
        let work = PlanRows::new(self, name, rows)?;
        let planned = state_machine::run(work, &self.engine, |need| self.needed(need))?;
        Ok(planned.only())
    }

    /// Reads the rows of a plan that [`Reader::plan_rows`] made. All ranges are read at
    /// the same time, including those in the base.
    pub fn read_planned(&self, plan: &RowsPlan) -> Result<Tensor> {
        let work = ReadRows::new(self, plan)?;
        let bytes = state_machine::run(work, &self.engine, |need| self.needed(need))?;
        Ok(tensor(self.find(plan.name())?, plan.shape(), bytes))
    }
}
