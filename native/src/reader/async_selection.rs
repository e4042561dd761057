//! Reads selected elements of a tensor without blocking a thread.

use std::borrow::Cow;
use std::sync::Arc;

use zstn_core::bytes;

use super::bands::waves;
use super::plan_rows::PlanRows;
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
        let selection = Arc::new(selection);
        let mut plans = match selection.len_bytes() {
            0 => Vec::new(),
            _ => {
                let work = PlanRows::selected(self, number, Arc::clone(&selection));
                self.run(work).await?
            }
        };
        if plans.len() > 1 && plans.iter().any(RowsPlan::has_whole_base) {
            // The whole tensor of the base would be read for each plan.
            let whole = 0..self.tensors()[number].len_bytes();
            plans = self.run(PlanRows::of_bytes(self, number, &[whole])).await?;
        }
        let mut out = bytes::buffer(selection.len_bytes())?;
        for wave in waves(&plans, |plan| plan.span().end - plan.span().start) {
            let reads = wave.iter().map(|plan| ReadRows::new(self, plan.clone()));
            let gathering = Gathering {
                reads: Together::new(reads.collect::<Result<_>>()?),
                plans: wave.to_vec(),
                selection: Arc::clone(&selection),
                out,
            };
            out = self.run(gathering).await?;
        }
        let entry = &self.tensors()[number];
        Ok(tensor(entry, selection.shape(), out))
    }
}

/// The work of reading ranges of a tensor and copying the selected elements in them to
/// the output.
struct Gathering {
    reads: Together<ReadRows<'static, AsyncReader, RowsPlan>>,
    plans: Vec<RowsPlan>,
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
        for (plan, bytes) in self.plans.iter().zip(decoded) {
            self.selection.copy(&plan.span(), &bytes, &mut self.out);
        }
        Ok(self.out)
    }
}
