//! Reads selected elements of a tensor without blocking a thread.

use std::borrow::Cow;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use zstn_core::bytes;

use super::plan_rows::{PlanRows, Plans};
use super::rows::{ReadRows, RowsPlan};
use super::state_machine::{Need, Together, Work};
use super::{AsyncReader, Selection, tensor};
use crate::{Engine, Result, Tensor};

impl AsyncReader {
    /// Reads the selected elements of a tensor. Only the blocks that contain them are
    /// fetched and decoded, as by [`Reader::read_selection`](crate::Reader::read_selection),
    /// but nothing is cached. In addition to the result, 32 MiB of decoded blocks are in
    /// memory, or the tensor if it is not stored in blocks.
    ///
    /// # Errors
    /// The errors of [`Reader::read_selection`](crate::Reader::read_selection).
    pub async fn read_selection(&self, selection: Selection) -> Result<Tensor> {
        let number = selection.number_in(self)?;
        let bytes = match selection.contiguous() {
            _ if selection.len_bytes() == 0 => Vec::new(),
            Some(range) => self.read_range(number, range).await?,
            None => self.gather(number, Arc::new(selection.clone())).await?,
        };
        Ok(tensor(&self.tensors()[number], selection.shape(), bytes))
    }

    async fn read_range(&self, number: usize, range: Range<u64>) -> Result<Vec<u8>> {
        let work = PlanRows::of_bytes(self, number, slice::from_ref(&range));
        let plan = self.run(work).await?.only();
        self.run(ReadRows::new(self, plan)?).await
    }

    async fn gather(&self, number: usize, selection: Arc<Selection>) -> Result<Vec<u8>> {
        let mut out = bytes::buffer(selection.len_bytes())?;
        let mut next = Some(PlanRows::selected(self, number, Arc::clone(&selection)));
        while let Some(work) = next {
            let Plans {
                mut plans,
                mut rest,
            } = self.run(work).await?;
            let reads_whole = plans.iter().any(RowsPlan::reads_whole);
            if reads_whole && plans.len() + rest.len() > 1 {
                // Otherwise the whole tensor would be read for each plan.
                let whole = 0..self.tensors()[number].len_bytes();
                let work = PlanRows::of_bytes(self, number, slice::from_ref(&whole));
                (plans, rest) = (self.run(work).await?.plans, Vec::new());
            }
            let spans = plans.iter().map(RowsPlan::span).collect();
            let reads = plans.into_iter().map(|plan| ReadRows::new(self, plan));
            let gathering = Gathering {
                reads: Together::new(reads.collect::<Result<_>>()?),
                spans,
                selection: Arc::clone(&selection),
                out,
            };
            out = self.run(gathering).await?;
            next = (!rest.is_empty()).then(|| PlanRows::after(self, number, rest));
        }
        Ok(out)
    }
}

/// The work of reading ranges of a tensor and copying the selected elements in them to
/// the output.
struct Gathering {
    reads: Together<ReadRows<'static, AsyncReader, RowsPlan>>,
    spans: Vec<Range<u64>>,
    selection: Arc<Selection>,
    out: Vec<u8>,
}

impl Work<'static> for Gathering {
    type Output = Vec<u8>;

    fn needs(&mut self) -> Result<Vec<Need>> {
        self.reads.needs()
    }

    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'static, [u8]>>) -> Result<()> {
        self.reads.supply(needs, bytes)
    }

    fn finish(mut self, engine: &Engine) -> Result<Vec<u8>> {
        let decoded = self.reads.finish(engine)?;
        for (span, bytes) in self.spans.iter().zip(decoded) {
            self.selection.copy(span, &bytes, &mut self.out);
        }
        Ok(self.out)
    }
}
