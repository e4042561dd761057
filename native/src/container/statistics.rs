//! Comparing the statistics of a file with the tensors they are of: a false figure
//! would be shown as a fact.

use zstn_core::TensorRef;
use zstn_core::bytes::part;
use zstn_core::container::safetensors::{Header, Tensor};
use zstn_core::container::zstn::integrity::StoredStatistics;
use zstn_core::statistics::{Figures, Statistics};
use zstn_core::{Error as CoreError, Rule};

use super::Container;
use crate::source::Source;
use crate::{Engine, Error, Result};

impl Container<'_> {
    /// Returns what compares the bytes of a tensor with its statistics, given its
    /// span.
    pub(crate) fn statistics(&self) -> Result<Expected> {
        let refuse = Error::place(self.input.name());
        self.expected().map_err(refuse)
    }

    fn expected(&self) -> zstn_core::Result<Expected> {
        let (Some(tail), Some(integrity)) = (&self.tail, self.integrity()) else {
            return Ok(Expected::default());
        };
        if integrity.statistics_bytes().is_none() {
            return Ok(Expected::default());
        }
        let header = Header::parse(self.header(), self.prefix.data_len_bytes)?;
        let tensors = tail.index.agree(&header)?;
        let shapes: Vec<_> = tensors.iter().map(|t| (t.dtype, &t.shape[..])).collect();
        let stored = integrity.statistics(&shapes)?.unwrap_or_default();
        let read = |(stored, tensor): (Option<StoredStatistics>, &&Tensor)| {
            let stored = stored?;
            let bands = stored.bands(part(self.input, stored.range.clone()));
            let bands = bands.map_err(|error| error.tensor(&tensor.name));
            Some(bands.map(|bands| Figured {
                tensor: (**tensor).clone(),
                summary: stored.summary,
                bands,
            }))
        };
        let tensors = stored.into_iter().zip(&tensors).filter_map(read);
        Ok(Expected(tensors.collect::<zstn_core::Result<_>>()?))
    }
}

/// The statistics of all tensors.
#[derive(Default)]
pub(crate) struct Expected(Vec<Figured>);

/// A tensor with its statistics.
struct Figured {
    tensor: Tensor,
    summary: Figures,
    bands: Vec<Figures>,
}

impl Expected {
    /// Compares the bytes at `span` of the data.
    pub(crate) fn check(
        &self,
        engine: &Engine,
        span: &std::ops::Range<u64>,
        bytes: &[u8],
    ) -> zstn_core::Result<()> {
        let start = self
            .0
            .partition_point(|of| of.tensor.span.start < span.start);
        let at_span = self.0[start..].iter();
        for of in at_span.take_while(|of| of.tensor.span.start == span.start) {
            if of.tensor.span != *span {
                continue;
            }
            let tensor = TensorRef::new(bytes, of.tensor.dtype, &of.tensor.shape);
            let found = Statistics::of(engine, tensor);
            if found.is_none_or(|f| f.summary != of.summary || f.bands != of.bands) {
                return Err(CoreError::malformed(
                    Rule::ZstnStatistics,
                    "the statistics in the file are not those of the tensor; pack it again",
                )
                .tensor(&of.tensor.name));
            }
        }
        Ok(())
    }
}
