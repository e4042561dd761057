//! Plans the reads for parts of a tensor.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use zstn_core::model::Rows;

use super::Selection;
use super::bands::{PLAIN_BAND_BYTES, division, merged, waves};
use super::rows::{RowsPlan, stored_with_bases};
use super::state_machine::{Need, Opened, Work};
use crate::{Engine, Error, Result};

/// The parts of a tensor that plans are made for.
#[derive(Debug, Clone)]
enum Wish {
    /// Rows of its outermost dimension.
    Rows(Range<u64>),
    /// Ranges of its bytes, each with its place in the result.
    Bytes(Vec<(usize, Range<u64>)>),
    /// Selected elements: for each band of the tensor, the range from the first one to
    /// the last one.
    Selected(Arc<Selection>),
    /// Ranges of selected elements that a previous plan has left.
    Rest(Vec<Range<u64>>),
}

/// The work of planning the reads for parts of a tensor, and for the bytes of bases that
/// they are decoded with. It reads the block tables that were not loaded together with
/// the index, each of them once.
pub(super) struct PlanRows<'a, R> {
    model: R,
    level: usize,
    number: usize,
    /// The parts that are planned at this level; `None` once all levels are planned.
    wish: Option<Wish>,
    /// The bytes of the block table that have been read.
    table: Option<Cow<'a, [u8]>>,
    /// For each part, the finished plans of the previous levels, each with the number of
    /// stored bytes of the whole tensor.
    done: Vec<Vec<(Rows, u64)>>,
    rest: Vec<Range<u64>>,
}

/// The plans for parts of a tensor.
pub(super) struct Plans {
    pub plans: Vec<RowsPlan>,
    /// The ranges of selected elements that follow those of `plans`. They have no plans
    /// yet, because a plan for a delta takes up to 256 KiB.
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "`Reader` plans no selections")
    )]
    pub rest: Vec<Range<u64>>,
}

impl Plans {
    /// Returns the plan of work for one part.
    pub(super) fn only(mut self) -> RowsPlan {
        self.plans.pop().expect("every part has a plan")
    }
}

impl<R: Opened> PlanRows<'_, R> {
    pub(super) fn new(model: &R, name: &str, rows: Range<u64>) -> Result<Self> {
        let number = model.number(name)?;
        Ok(Self::of(model, number, Wish::Rows(rows)))
    }

    /// Plans the reads for ranges of the bytes of tensor `number`.
    pub(super) fn of_bytes(model: &R, number: usize, spans: &[Range<u64>]) -> Self {
        let spans = spans.iter().cloned().enumerate();
        Self::of(model, number, Wish::Bytes(spans.collect()))
    }

    /// Plans the reads for the first of the selected elements of tensor `number`, as many
    /// as are decoded together. Each plan is for a range of its bytes.
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "`Reader` plans the bands that it has not cached")
    )]
    pub(super) fn selected(model: &R, number: usize, selection: Arc<Selection>) -> Self {
        Self::of(model, number, Wish::Selected(selection))
    }

    /// Plans the reads for [`Plans::rest`].
    #[cfg_attr(
        not(feature = "async"),
        expect(dead_code, reason = "`Reader` plans the bands that it has not cached")
    )]
    pub(super) fn after(model: &R, number: usize, rest: Vec<Range<u64>>) -> Self {
        Self::of(model, number, Wish::Rest(rest))
    }

    fn of(model: &R, number: usize, wish: Wish) -> Self {
        Self {
            model: model.clone(),
            level: 0,
            number,
            wish: Some(wish),
            table: None,
            done: Vec::new(),
            rest: Vec::new(),
        }
    }

    /// Finishes the plans for this level, and continues with the base if parts are
    /// decoded with bytes of it.
    fn advance(&mut self, wish: Wish) -> Result<()> {
        let table = self.table.take();
        let planned = self.plan(wish, table.as_deref());
        let planned = planned.map_err(Error::place(self.model.name()))?;
        let stored_len_bytes = stored_with_bases(&self.model, self.number);
        let mut in_base = Vec::new();
        for (place, rows) in planned {
            in_base.extend(rows.base().map(|span| (place, span)));
            if place == self.done.len() {
                self.done.push(Vec::new());
            }
            self.done[place].push((rows, stored_len_bytes));
        }
        if let Some(base) = self.model.base().cloned()
            && !in_base.is_empty()
        {
            self.number = self.model.in_base(self.number, &base)?;
            self.model = base;
            self.level += 1;
            self.wish = Some(Wish::Bytes(in_base));
        }
        Ok(())
    }

    /// Plans the parts at this level, each with its place in the result.
    fn plan(&mut self, wish: Wish, table: Option<&[u8]>) -> zstn_core::Result<Vec<(usize, Rows)>> {
        let model = self.model.model();
        let part = |span| model.part(self.number, span, table);
        let spans = match wish {
            Wish::Rows(rows) => return Ok(vec![(0, model.rows(self.number, rows, table)?)]),
            Wish::Bytes(spans) => spans,
            Wish::Selected(selection) => {
                let spans = self.spans(&selection, part)?;
                first_wave(spans, &mut self.rest)
            }
            Wish::Rest(spans) => first_wave(spans, &mut self.rest),
        };
        let planned = spans
            .into_iter()
            .map(|(place, span)| Ok((place, part(span)?)));
        planned.collect()
    }

    /// Returns the ranges of the tensor's bytes to read for selected elements.
    fn spans(
        &self,
        selection: &Selection,
        part: impl Fn(Range<u64>) -> zstn_core::Result<Rows>,
    ) -> zstn_core::Result<Vec<Range<u64>>> {
        let model = self.model.model();
        if model.plain_part(self.number).is_some() {
            return Ok(merged(selection.spans(PLAIN_BAND_BYTES)));
        }
        // The first bytes show how a tensor is stored.
        let whole = 0..model.tensors()[self.number].len_bytes();
        Ok(match division(&part(0..1)?) {
            None => vec![whole],
            Some(band_bytes) => selection.spans(band_bytes),
        })
    }
}

/// Returns the ranges that are read together first, each with its place. `rest` receives
/// the others.
fn first_wave(mut spans: Vec<Range<u64>>, rest: &mut Vec<Range<u64>>) -> Vec<(usize, Range<u64>)> {
    let first = waves(&spans).next().map_or(0, <[_]>::len);
    *rest = spans.split_off(first);
    spans.into_iter().enumerate().collect()
}

impl<'a, R: Opened> Work<'a> for PlanRows<'a, R> {
    type Output = Plans;

    fn needs(&mut self) -> Result<Vec<Need>> {
        while let Some(wish) = self.wish.take() {
            let fetched = self.table.as_deref().unwrap_or_default();
            if let Some((file, range)) = self.model.model().block_table(self.number, fetched) {
                self.wish = Some(wish);
                return Ok(vec![Need {
                    level: self.level,
                    file,
                    range,
                    is_compared: false,
                }]);
            }
            self.advance(wish)?;
        }
        Ok(Vec::new())
    }

    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        for (need, bytes) in needs.iter().zip(bytes) {
            self.model.check_unchanged(need.file)?;
            self.table = Some(bytes);
        }
        Ok(())
    }

    fn finish(self, _: &Engine) -> Result<Plans> {
        Ok(Plans {
            plans: self.done.into_iter().map(RowsPlan::of_levels).collect(),
            rest: self.rest,
        })
    }
}
