//! Groups whose elements are stored unchanged.

use alloc::format;
use alloc::vec::Vec;

use super::{Geometry, Head};
use crate::bytes::index;
use crate::{Error, Result, Rule};

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
        head: &Head,
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
    pub(super) fn fill(&self, head: &Head, first: u64, out: &mut [u8]) {
        if self.groups.is_empty() {
            return;
        }
        let Geometry {
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
