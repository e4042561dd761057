//! The elements of a tensor that are read together: the selected indices of every
//! dimension.

use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::dtype::Dtype;
use zstn_core::model::TensorInfo;
use zstn_core::tensor::element_count;
use zstn_core::{Error, Result};

use super::Indices;
use super::state_machine::Opened;

/// The selected indices of every dimension of a tensor. The selected elements are those
/// at the intersections of these indices.
#[derive(Debug, Clone)]
pub struct Selection {
    name: String,
    dtype: Dtype,
    tensor_shape: Vec<u64>,
    shape: Vec<u64>,
    /// The dimensions in which indices are selected, up to the last one that is not
    /// selected whole.
    dimensions: Vec<Dimension>,
    /// The length in bytes of the elements inside the last of `dimensions`.
    run_bytes: u64,
    tensor_bytes: u64,
    len_bytes: u64,
}

#[derive(Debug, Clone)]
struct Dimension {
    indices: Indices,
    /// The length in bytes of the tensor's elements at one index.
    tensor_bytes: u64,
    /// The length in bytes of the selected elements at one index.
    selected_bytes: u64,
}

impl Selection {
    /// Selects `indices` of a tensor, one entry for each dimension.
    ///
    /// # Errors
    /// Fewer or more entries than dimensions; an index beyond the end of its dimension;
    /// a list that is not in ascending order; elements shorter than a byte, if the last
    /// dimension is not selected whole or its length is not a whole number of bytes.
    pub fn new(tensor: &TensorInfo, indices: Vec<Indices>) -> Result<Self> {
        let refuse = |detail: String| Error::invalid_input(detail).tensor(&tensor.name);
        if indices.len() != tensor.shape.len() {
            return Err(refuse(format!(
                "{} selections for a tensor of {} dimensions",
                indices.len(),
                tensor.shape.len()
            )));
        }
        let checked = indices.into_iter().zip(&tensor.shape);
        let mut indices: Vec<Indices> = checked
            .map(|(indices, len)| indices.checked(*len).map_err(refuse))
            .collect::<Result<_>>()?;
        let shape = indices.iter().map(Indices::count).collect();
        let is_whole = |(indices, len): (&Indices, &u64)| *indices == Indices::range(0..*len);
        let selected = indices.iter().zip(&tensor.shape);
        let inner = selected.rev().take_while(|both| is_whole(*both)).count();
        let outer = indices.len() - inner;
        let overflow = || refuse("the tensor has more bits than 64 bits can count".into());
        let run_bits = element_count(&tensor.shape[outer..])
            .and_then(|count| count.checked_mul(tensor.dtype.bits()))
            .ok_or_else(overflow)?;
        let row_bits = tensor
            .shape
            .last()
            .map_or(0, |len| len.saturating_mul(tensor.dtype.bits()));
        let is_packed = tensor.dtype.len_bytes().is_none();
        if outer > 0 && is_packed && (inner == 0 || !row_bits.is_multiple_of(8)) {
            return Err(refuse(format!(
                "elements of {} are parts of bytes: the last dimension can be taken as a whole only",
                tensor.dtype
            )));
        }
        let run_bytes = if outer == 0 {
            tensor.len_bytes()
        } else {
            run_bits / 8
        };
        let (mut tensor_bytes, mut selected_bytes) = (run_bytes, run_bytes);
        let mut dimensions = Vec::with_capacity(outer);
        indices.truncate(outer);
        for (indices, len) in indices.into_iter().zip(&tensor.shape).rev() {
            let count = indices.count();
            dimensions.push(Dimension {
                indices,
                tensor_bytes,
                selected_bytes,
            });
            tensor_bytes = tensor_bytes.checked_mul(*len).ok_or_else(overflow)?;
            selected_bytes = selected_bytes.checked_mul(count).ok_or_else(overflow)?;
        }
        dimensions.reverse();
        Ok(Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            tensor_shape: tensor.shape.clone(),
            shape,
            dimensions,
            run_bytes,
            tensor_bytes,
            len_bytes: selected_bytes,
        })
    }

    /// Selects a range of indices of each of the first dimensions, which are the
    /// outermost ones. The other dimensions are selected whole.
    ///
    /// # Errors
    /// More ranges than dimensions; a range that ends before it begins, or after its
    /// dimension; the errors of [`Selection::new`].
    pub fn ranges(tensor: &TensorInfo, ranges: &[Range<u64>]) -> Result<Self> {
        let shape = &tensor.shape;
        let refuse = |detail: String| Error::invalid_input(detail).tensor(&tensor.name);
        if ranges.len() > shape.len() {
            let count = ranges.len();
            let detail = format!("{count} selections for the axes of the shape {shape:?}");
            return Err(refuse(detail));
        }
        let indices = shape.iter().enumerate().map(|(axis, &len)| {
            let range = ranges.get(axis).cloned().unwrap_or(0..len);
            if range.start > range.end || range.end > len {
                return Err(refuse(format!(
                    "{}..{} is not a range of the {len} indices of axis {axis}: the shape is \
                     {shape:?}",
                    range.start, range.end
                )));
            }
            Ok(Indices::range(range))
        });
        Self::new(tensor, indices.collect::<Result<_>>()?)
    }

    /// Returns the name of the tensor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the shape of the selected elements: the number of indices of each
    /// dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the total length of the selected elements in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the number of the tensor in a model.
    ///
    /// # Errors
    /// The model has no such tensor, or one of another dtype or shape.
    pub(super) fn number_in(&self, model: &impl Opened) -> crate::Result<usize> {
        let number = model.number(&self.name)?;
        let tensor = &model.model().tensors()[number];
        if self.dtype != tensor.dtype || self.tensor_shape != tensor.shape {
            let detail = "the selection was made for a tensor of another shape or dtype";
            let refusal = Error::invalid_input(detail).tensor(&self.name);
            return Err(crate::Error::place(model.name())(refusal));
        }
        Ok(number)
    }

    /// Returns the offset of the first selected byte of the tensor.
    fn first(&self) -> Option<u64> {
        self.next(0, 0)
    }

    /// Returns the range of the tensor's bytes that is selected, if the selected
    /// elements are adjacent and in the order of the tensor.
    pub(super) fn contiguous(&self) -> Option<Range<u64>> {
        let start = self.first()?;
        let end = self.previous(0, self.tensor_bytes)?;
        let mut dimensions = self.dimensions.iter();
        let are_ascending = dimensions.all(|dimension| dimension.indices.place(0) == 0);
        (are_ascending && end - start == self.len_bytes).then_some(start..end)
    }

    /// Returns the ranges of the tensor's bytes to read if the tensor consists of bands
    /// of `band_bytes` (not zero): for each band with selected elements, the range from
    /// the first one to the last one.
    pub(super) fn spans(&self, band_bytes: u64) -> Vec<Range<u64>> {
        let mut spans = Vec::new();
        let mut at = 0;
        while at < self.tensor_bytes
            && let Some(start) = self.next(0, at)
        {
            let band_end = (start / band_bytes + 1).saturating_mul(band_bytes);
            at = band_end.min(self.tensor_bytes);
            let end = self.previous(0, at).unwrap_or(start);
            spans.push(start..end);
        }
        spans
    }

    /// Copies the selected elements inside `span`, a range of the tensor with these
    /// `bytes`, to their places in `out`.
    pub(super) fn copy(&self, span: &Range<u64>, bytes: &[u8], out: &mut [u8]) {
        let copying = Copying {
            selection: self,
            span: span.clone(),
            bytes,
            out,
        };
        copying.run(0, 0, 0);
    }

    /// Returns the first selected byte at or after `offset`, in the part of the tensor
    /// inside the first `depth` dimensions.
    fn next(&self, depth: usize, offset: u64) -> Option<u64> {
        let Some(dimension) = self.dimensions.get(depth) else {
            return (offset < self.run_bytes).then_some(offset);
        };
        let bytes = dimension.tensor_bytes;
        let at = offset.checked_div(bytes)?;
        let mut rank = dimension.indices.rank(at);
        if dimension.indices.get(rank) == Some(at) {
            if let Some(inner) = self.next(depth + 1, offset - at * bytes) {
                return Some(at * bytes + inner);
            }
            rank += 1;
        }
        let at = dimension.indices.get(rank)?;
        Some(at * bytes + self.next(depth + 1, 0)?)
    }

    /// Returns the end of the last selected byte before `end`, in the part of the tensor
    /// inside the first `depth` dimensions.
    fn previous(&self, depth: usize, end: u64) -> Option<u64> {
        let last = end.checked_sub(1)?;
        let Some(dimension) = self.dimensions.get(depth) else {
            return Some(end.min(self.run_bytes));
        };
        let bytes = dimension.tensor_bytes;
        let at = last.checked_div(bytes)?;
        let rank = dimension.indices.rank(at);
        if dimension.indices.get(rank) == Some(at)
            && let Some(inner) = self.previous(depth + 1, end - at * bytes)
        {
            return Some(at * bytes + inner);
        }
        let at = dimension.indices.get(rank.checked_sub(1)?)?;
        Some(at * bytes + self.previous(depth + 1, bytes)?)
    }
}

/// The work of [`Selection::copy`].
struct Copying<'a> {
    selection: &'a Selection,
    span: Range<u64>,
    bytes: &'a [u8],
    out: &'a mut [u8],
}

impl Copying<'_> {
    fn run(mut self, depth: usize, start: u64, out_start: u64) {
        self.dimension(depth, start, out_start);
    }

    /// Copies elements inside the first `depth` dimensions, whose part of the tensor
    /// begins at the offset `start` and whose part of the output begins at `out_start`.
    fn dimension(&mut self, depth: usize, start: u64, out_start: u64) {
        let selection = self.selection;
        let Some(dimension) = selection.dimensions.get(depth) else {
            return self.adjacent(start..start + selection.run_bytes, out_start);
        };
        let (indices, bytes) = (&dimension.indices, dimension.tensor_bytes);
        let is_last = depth + 1 == selection.dimensions.len();
        if is_last
            && indices.is_range()
            && let Some(first) = indices.get(0)
        {
            let first = start + first * bytes;
            return self.adjacent(first..first + indices.count() * bytes, out_start);
        }
        let from = self.span.start.saturating_sub(start) / bytes;
        let to = self.span.end.saturating_sub(start).div_ceil(bytes);
        for rank in indices.rank(from)..indices.rank(to) {
            if let Some(at) = indices.get(rank) {
                let out_start = out_start + indices.place(rank) * dimension.selected_bytes;
                self.dimension(depth + 1, start + at * bytes, out_start);
            }
        }
    }

    /// Copies the part of `range` that is inside the span; `out_start` is the place of
    /// the first byte of `range`.
    fn adjacent(&mut self, range: Range<u64>, out_start: u64) {
        let start = range.start.max(self.span.start);
        let end = range.end.min(self.span.end);
        if start >= end {
            return;
        }
        let out_start = index(out_start + start - range.start);
        let len = index(end - start);
        let from = index(start - self.span.start);
        self.out[out_start..out_start + len].copy_from_slice(&self.bytes[from..from + len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENS: [u64; 3] = [5, 4, 6];

    fn every_choice() -> Vec<Vec<Indices>> {
        let steps = |start, step, count| Indices::Steps { start, step, count };
        let of = |len: u64| {
            vec![
                Indices::range(0..len),
                Indices::range(1..3),
                steps(len - 1, -1, len),
                steps(3, -2, 2),
                steps(0, 3, 2),
                steps(2, 7, 1),
                steps(9, -1, 0),
                Indices::List(vec![0, 1, 3]),
                Indices::List(vec![2, 3]),
                Indices::List(Vec::new()),
            ]
        };
        let [outer, middle, inner] = LENS.map(of);
        let mut choices = Vec::new();
        for one in &outer {
            for two in &middle {
                choices.extend(
                    inner
                        .iter()
                        .map(|three| vec![one.clone(), two.clone(), three.clone()]),
                );
            }
        }
        choices
    }

    fn listed(indices: &Indices) -> Vec<u64> {
        match indices {
            Indices::List(list) => list.clone(),
            Indices::Steps { start, step, count } => {
                let at = |number| start.wrapping_add_signed(step * i64::try_from(number).unwrap());
                (0..*count).map(at).collect()
            }
        }
    }

    fn tensor(dtype: &str, shape: &[u64], bytes: u64) -> crate::Reader {
        let header = format!(
            r#"{{"w":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[0,{bytes}]}}}}"#
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend((0..bytes).map(|byte| byte.to_le_bytes()[0]));
        crate::Reader::open(file).unwrap()
    }

    #[test]
    fn spans_contain_the_selected_elements_and_copies_are_in_order() {
        let reader = tensor("U16", &LENS, 240);
        let info = reader.find("w").unwrap();
        let bytes = reader.read("w").unwrap().bytes;
        for choice in every_choice() {
            let selection = Selection::new(info, choice.clone()).unwrap();
            let lists: Vec<_> = choice.iter().map(listed).collect();
            let mut starts = Vec::new();
            for i in &lists[0] {
                for j in &lists[1] {
                    starts.extend(
                        lists[2]
                            .iter()
                            .map(|k| 2 * ((i * LENS[1] + j) * LENS[2] + k)),
                    );
                }
            }
            let expected: Vec<u8> = starts
                .iter()
                .flat_map(|start| bytes[index(*start)..][..2].to_vec())
                .collect();
            let is_contiguous = starts.windows(2).all(|both| both[0] + 2 == both[1]);
            assert_eq!(
                selection.contiguous().is_some(),
                is_contiguous && !starts.is_empty()
            );
            for band_bytes in [2, 14, 48, 500] {
                let mut out = vec![0; expected.len()];
                for span in selection.spans(band_bytes) {
                    assert!(starts.contains(&span.start) && starts.contains(&(span.end - 2)));
                    assert_eq!(span.start / band_bytes, (span.end - 1) / band_bytes);
                    let part = &bytes[index(span.start)..index(span.end)];
                    selection.copy(&span, part, &mut out);
                }
                assert_eq!(out, expected, "{choice:?}");
            }
            assert_eq!(reader.read_selection(&selection).unwrap().bytes, expected);
        }
    }

    #[test]
    fn indices_outside_a_tensor_are_refused() {
        let reader = tensor("U8", &[3, 2], 6);
        let info = reader.find("w").unwrap();
        let steps = |start, step, count| Indices::Steps { start, step, count };
        for wrong in [
            Indices::range(1..4),
            Indices::range(3..4),
            steps(2, -1, 4),
            steps(0, 0, 2),
            steps(u64::MAX, i64::MIN, u64::MAX),
            steps(1, i64::MAX, u64::MAX),
            Indices::List(vec![0, 3]),
            Indices::List(vec![1, 0]),
            Indices::List(vec![1, 1]),
        ] {
            let error = Selection::new(info, vec![wrong.clone(), Indices::range(0..2)]);
            let error = error.expect_err("refused");
            assert_eq!(
                error.kind(),
                zstn_core::ErrorKind::InvalidInput,
                "{wrong:?}"
            );
        }
        assert!(Selection::new(info, vec![Indices::range(0..3)]).is_err());
        let backwards = Range { start: 2, end: 1 };
        for wrong in [[0..1, 2..4], [backwards, 0..1], [3..4, 0..1], [0..1, 3..3]] {
            let error = Selection::ranges(info, &wrong).expect_err("refused");
            assert!(error.to_string().contains("[3, 2]"), "{error}");
        }
        let column = Selection::ranges(info, &[0..3, 1..2]).unwrap();
        assert_eq!(reader.read_selection(&column).unwrap().bytes, [1, 3, 5]);
        let rows = Selection::ranges(info, std::slice::from_ref(&(1..3))).unwrap();
        assert_eq!(rows.shape(), [2, 2]);
        assert!(Selection::ranges(info, &[0..1, 0..1, 0..1]).is_err());
        let all = vec![Indices::range(0..3), Indices::List(vec![1])];
        let selection = Selection::new(info, all).unwrap();
        let error = tensor("U8", &[6, 1], 6).read_selection(&selection);
        assert!(
            error
                .expect_err("another shape")
                .to_string()
                .contains("shape")
        );
    }

    #[test]
    fn short_elements_are_selected_in_whole_rows() {
        let reader = tensor("F4", &[3, 4], 6);
        let info = reader.find("w").unwrap();
        let rows = vec![Indices::List(vec![0, 2]), Indices::range(0..4)];
        let selection = Selection::new(info, rows).unwrap();
        assert_eq!(
            reader.read_selection(&selection).unwrap().bytes,
            [0, 1, 4, 5]
        );
        let columns = vec![Indices::range(0..3), Indices::range(0..2)];
        assert!(Selection::new(info, columns).is_err());
    }
}
