//! Computes elements from symbols and from the properties of each group: its
//! scale, its offset, and whether its elements are stored unchanged.

use alloc::format;
use alloc::vec::Vec;

use super::{Grid, GroupLayout, LatticeHead};
use crate::bytes::index;
use crate::engine::Engine;
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};
use crate::{Error, Result, Rule};

/// The decoded side frames, which hold the properties of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    pub(super) scales: Vec<f32>,
    /// The offset of each group; empty if the grid has no offsets.
    pub(super) offsets: Vec<u8>,
    pub(super) exceptions: Exceptions,
}

impl Groups {
    /// Combines the exceptions with the decoded content of the inner frames of
    /// scales and offsets.
    pub(super) fn new(
        head: &LatticeHead,
        scales: &[u8],
        offsets: Vec<u8>,
        exceptions: Exceptions,
    ) -> Result<Self> {
        let scales: Vec<f32> = match head.scales {
            FloatType::F32 => floats(scales, f32::from_le_bytes),
            FloatType::Bf16 => floats(scales, |bits| from_bf16(u16::from_le_bytes(bits))),
            FloatType::F16 => floats(scales, |bits| match u16::from_le_bytes(bits) {
                infinite if infinite & 0x7c00 == 0x7c00 => f32::INFINITY,
                finite => from_f16(finite),
            }),
        };
        if let Some(group) = scales.iter().position(|scale| !scale.is_finite()) {
            let detail = format!("the scale of group {group} is not finite");
            return Err(Error::malformed(Rule::LatticeScale, detail));
        }
        Ok(Self {
            scales,
            offsets,
            exceptions,
        })
    }
}

fn floats<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (items, _) = bytes.as_chunks::<N>();
    items.iter().map(|&item| convert(item)).collect()
}

/// The groups whose elements are stored unchanged, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Exceptions {
    /// The index of each group, and the offset of its elements in `elements`.
    groups: Vec<(u64, u64)>,
    elements: Vec<u8>,
}

impl Exceptions {
    /// Reads the exceptions from `bitmap`, which has one bit for every group of
    /// the matrix. Calls `decode` for their elements only if `len_bytes`, the
    /// length to which these decode, agrees with the bitmap.
    pub(super) fn new(
        head: &LatticeHead,
        bitmap: &[u8],
        len_bytes: u64,
        decode: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let bad = |detail| Err(Error::malformed(Rule::LatticeExceptions, detail));
        let (count, item_bytes) = (head.geometry.groups(), head.elements.len_bytes() as u64);
        let set: usize = bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
        let mut groups = Vec::new();
        if groups.try_reserve_exact(set).is_err() {
            let detail = format!("{set} exceptions do not fit into memory");
            return Err(Error::limit(detail));
        }
        let mut end = 0u64;
        for (number, &byte) in (0..).zip(bitmap) {
            let mut bits = byte;
            while bits != 0 {
                let group = 8 * number + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if group >= count {
                    return bad(format!("an exception is after the last of {count} groups"));
                }
                groups.push((group, end));
                // This cannot overflow: the sum is at most the length of the
                // whole matrix in bytes.
                end += head.geometry.group_elements(group) * item_bytes;
            }
        }
        if end != len_bytes {
            return bad(format!(
                "{len_bytes} bytes of exceptions where {set} groups have {end}"
            ));
        }
        Ok(Self {
            groups,
            elements: decode()?,
        })
    }

    /// Copies the exceptions to `out`, which holds the elements from index
    /// `first` on. The time that this takes grows with the length of `out`, not
    /// with the size of the groups.
    pub(super) fn fill(&self, head: &LatticeHead, first: u64, out: &mut [u8]) {
        if self.groups.is_empty() {
            return;
        }
        let GroupLayout {
            columns,
            group_rows,
            group_columns,
            ..
        } = head.geometry;
        let (columns, item_bytes) = (u64::from(columns), head.elements.len_bytes());
        let across = head.geometry.groups_across();
        let mut rest = out;
        let mut element = first;
        while !rest.is_empty() {
            // The elements of one row, up to its end or the end of `out`.
            let (row, start) = (element / columns, element % columns);
            let left = (rest.len() / item_bytes) as u64;
            let end = columns.min(start + left);
            let (part, others) = rest.split_at_mut(index(end - start) * item_bytes);
            let band = row / u64::from(group_rows) * across;
            let numbers =
                band + start / u64::from(group_columns)..band + end.div_ceil(group_columns.into());
            let from = self
                .groups
                .partition_point(|(group, _)| *group < numbers.start);
            let groups = self.groups[from..].iter();
            for &(group, at) in groups.take_while(|(group, _)| *group < numbers.end) {
                let (rows, own) = head.geometry.group(group);
                let stored_row = (row - rows.start) * (own.end - own.start);
                let shared = own.start.max(start)..own.end.min(end);
                let skipped = (stored_row + shared.start - own.start) * item_bytes as u64;
                let source = index(at + skipped);
                let len = index(shared.end - shared.start) * item_bytes;
                let dest = index(shared.start - start) * item_bytes;
                part[dest..dest + len].copy_from_slice(&self.elements[source..source + len]);
            }
            rest = others;
            element += end - start;
        }
    }
}

/// Number of elements that one job computes.
const PIECE_ELEMENTS: usize = 1 << 17;

impl Groups {
    /// Fills `out` with the elements from index `first` on. `symbols` are the
    /// symbols of these elements.
    pub fn fill<E: Engine>(
        &self,
        engine: &E,
        head: &LatticeHead,
        first: u64,
        symbols: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let symbols = symbols.chunks(PIECE_ELEMENTS * head.grid.symbol_bytes());
        let pieces = out.chunks_mut(PIECE_ELEMENTS * head.elements.len_bytes());
        let firsts = (first..).step_by(PIECE_ELEMENTS);
        let jobs: Vec<_> = firsts.zip(symbols.zip(pieces)).collect();
        engine
            .map(jobs, |(first, (symbols, out))| {
                self.fill_piece(head, first, symbols, out)
            })
            .into_iter()
            .collect()
    }

    fn fill_piece(
        &self,
        head: &LatticeHead,
        first: u64,
        symbols: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        if !head.grid.holds(symbols) {
            let detail = "a symbol does not decode to a finite value";
            return Err(Error::malformed(Rule::LatticeSymbol, detail));
        }
        match head.elements {
            FloatType::Bf16 => {
                self.multiply(head, first, symbols, out, |v| to_bf16(v).to_le_bytes())
            }
            FloatType::F16 => self.multiply(head, first, symbols, out, |v| to_f16(v).to_le_bytes()),
            FloatType::F32 => self.multiply(head, first, symbols, out, f32::to_le_bytes),
        }
        self.exceptions.fill(head, first, out);
        Ok(())
    }

    /// Fills `out` with products of grid values and scales, which `round`
    /// converts to the dtype of the elements.
    #[inline(always)]
    fn multiply<const N: usize>(
        &self,
        head: &LatticeHead,
        first: u64,
        symbols: &[u8],
        out: &mut [u8],
        round: impl Fn(f32) -> [u8; N] + Copy,
    ) {
        let (out, _) = out.as_chunks_mut::<N>();
        let (pairs, _) = symbols.as_chunks::<2>();
        let (bytes, _) = symbols.as_chunks::<1>();
        let product = |value: f32, scale: f32| round(value * scale);
        match &head.grid {
            Grid::Integers { largest } => {
                let (zero, negative_zero) = (i32::from(*largest), 2 * largest + 1);
                self.each(head, first, bytes, out, |_| {
                    move |&[symbol]: &[u8; 1], scale| {
                        let integer = (i32::from(symbol) - zero) as f32;
                        let value = if symbol == negative_zero {
                            -0.0
                        } else {
                            integer
                        };
                        product(value, scale)
                    }
                });
            }
            Grid::OffsetIntegers { last } => {
                let negative_zero = last + 1;
                self.each(head, first, bytes, out, |group| {
                    let offset = i32::from(self.offsets[group]) - 128;
                    move |&[symbol]: &[u8; 1], scale| {
                        let integer = (i32::from(symbol) + offset) as f32;
                        let value = if symbol == negative_zero {
                            -0.0
                        } else {
                            integer
                        };
                        product(value, scale)
                    }
                });
            }
            Grid::Table(_) | Grid::E4m3 => {
                let values = head.grid.values();
                self.each(head, first, bytes, out, |_| {
                    |&[symbol]: &[u8; 1], scale| product(values[usize::from(symbol)], scale)
                });
            }
            Grid::F16 => self.each(head, first, pairs, out, |_| {
                move |&symbol: &[u8; 2], scale| product(from_f16(u16::from_le_bytes(symbol)), scale)
            }),
            Grid::Bf16 => self.each(head, first, pairs, out, |_| {
                move |&symbol: &[u8; 2], scale| {
                    product(from_bf16(u16::from_le_bytes(symbol)), scale)
                }
            }),
        }
    }

    /// Fills `out` with the elements from index `first` on, one group of one
    /// row at a time. For each group, `of` returns the function that maps
    /// symbol and scale to the element.
    #[inline(always)]
    fn each<S, O, F: Fn(&S, f32) -> O>(
        &self,
        head: &LatticeHead,
        first: u64,
        mut symbols: &[S],
        mut out: &mut [O],
        of: impl Fn(usize) -> F,
    ) {
        let GroupLayout {
            columns,
            group_rows,
            group_columns,
            ..
        } = head.geometry;
        let across = head.geometry.groups_across();
        let (columns, width) = (index(columns.into()), index(group_columns.into()));
        let mut row = first / columns as u64;
        let mut column = index(first % columns as u64);
        while !out.is_empty() {
            // The index of a group fits a `usize`, because each group has a
            // scale in memory.
            let band = index(row / u64::from(group_rows) * across);
            let count = out.len().min(columns - column);
            let (row_symbols, other_symbols) = symbols.split_at(count);
            let (row_out, other_out) = out.split_at_mut(count);
            if width == 1 {
                let scales = &self.scales[band + column..][..count];
                let scaled = row_out.iter_mut().zip(row_symbols).zip(scales);
                for (group, ((out, symbol), &scale)) in (band + column..).zip(scaled) {
                    *out = of(group)(symbol, scale);
                }
            } else {
                let head = (width - column % width).min(count);
                let (head_symbols, full_symbols) = row_symbols.split_at(head);
                let (head_out, full_out) = row_out.split_at_mut(head);
                let group = band + column / width;
                run(head_symbols, head_out, self.scales[group], of(group));
                let runs = full_symbols.chunks(width).zip(full_out.chunks_mut(width));
                for (group, (symbols, out)) in (group + 1..).zip(runs) {
                    run(symbols, out, self.scales[group], of(group));
                }
            }
            (symbols, out) = (other_symbols, other_out);
            (row, column) = (row + 1, 0);
        }
    }
}

/// Fills `out` with the elements of one row of a group.
#[inline(always)]
fn run<S, O>(symbols: &[S], out: &mut [O], scale: f32, element: impl Fn(&S, f32) -> O) {
    for (out, symbol) in out.iter_mut().zip(symbols) {
        *out = element(symbol, scale);
    }
}
