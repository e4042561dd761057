//! Parts of a tensor: slices of its outermost dimension.

use std::ops::Range;

use zstn_core::model::Rows;

use super::{Reader, Tensor};
use crate::source::read_parts;
use crate::{Error, Result};

impl Reader {
    /// Reads the `rows` of the tensor called `name`, slices of its outermost
    /// dimension. Fetches no more than the blocks that hold them, where the
    /// tensor is stored so.
    pub fn read_rows(&self, name: &str, rows: Range<u64>) -> Result<Tensor> {
        self.read_planned(&self.plan_rows(name, rows)?)
    }

    /// Plans what has to be fetched for `rows` of the tensor called `name`.
    /// Reads the tensor's block table if that did not come with the index.
    pub fn plan_rows(&self, name: &str, rows: Range<u64>) -> Result<Rows> {
        let refuse = Error::place(self.name());
        let number = self.number(name)?;
        let table = self.model().block_table(number);
        let table = table.map(|(file, range)| {
            let source = &self.sources()[file];
            let table = source.read(range)?;
            source.check_unchanged()?;
            Ok::<_, Error>(table)
        });
        let table = table.transpose()?;
        self.model()
            .rows(number, rows, table.as_deref())
            .map_err(&refuse)
    }

    /// Reads what [`Reader::plan_rows`] has planned.
    pub fn read_planned(&self, rows: &Rows) -> Result<Tensor> {
        let tensor = self.find(rows.name())?;
        let bytes = if rows.is_whole() {
            let mut bytes = self.read(rows.name())?.bytes;
            let span = rows.span();
            bytes.truncate(zstn_core::bytes::index(span.end));
            bytes.drain(..zstn_core::bytes::index(span.start));
            bytes
        } else {
            let ranges = rows.ranges();
            let wanted = ranges.map(|(file, range)| (&*self.sources()[file], range));
            let fetched = read_parts(&wanted.collect::<Vec<_>>())?;
            let fetched: Vec<&[u8]> = fetched.iter().map(|bytes| &**bytes).collect();
            let bytes = rows
                .decode(&self.engine, &fetched)
                .map_err(Error::place(self.name()));
            let mut files = rows.ranges().map(|(file, _)| &self.sources()[file]);
            files.try_for_each(|source| source.check_unchanged())?;
            bytes?
        };
        Ok(Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: rows.shape().to_vec(),
            bytes,
        })
    }
}
