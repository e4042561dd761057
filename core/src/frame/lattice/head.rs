//! The fields before the inner frames (docs/formats/zxq1.md 2), and the
//! division of a matrix into groups.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Grid, MAGIC, VERSION};
use crate::bytes::Cursor;
use crate::float::FloatType;
use crate::{Error, Result, Rule};

/// The fields of a frame that precede the lengths of the inner frames.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeHead {
    /// Dtype of the elements.
    pub elements: FloatType,
    /// Dtype of the scales.
    pub scales: FloatType,
    /// The mapping from symbols to values.
    pub grid: Grid,
    /// The matrix and its groups.
    pub geometry: GroupLayout,
    /// True if some groups are stored unchanged.
    pub has_exceptions: bool,
}

/// Flag bits of the head.
const OFFSETS: u8 = 1;
const EXCEPTIONS: u8 = 2;

impl LatticeHead {
    /// Returns the number of inner frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        let has_offsets = matches!(self.grid, Grid::OffsetIntegers { .. });
        2 + usize::from(has_offsets) + 2 * usize::from(self.has_exceptions)
    }

    /// Reads the fields up to the lengths of the inner frames.
    pub fn parse(cursor: &mut Cursor) -> Result<Self> {
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZXQ1 frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZXQ1 frame")?;
        let elements = float(cursor, "dtype")?;
        let grid_id = cursor.u8("grid")?;
        let flags = cursor.u8("frame flags")?;
        if flags & !(OFFSETS | EXCEPTIONS) != 0 {
            return Err(bad(format!("flags {flags:#04x} do not exist")).at(7));
        }
        let geometry = geometry(cursor)?;
        let count = cursor.u8("size of the grid")?;
        let scales = float(cursor, "dtype of the scales")?;
        let has_offsets = flags & OFFSETS != 0;
        let grid = match (grid_id, count, elements) {
            (0, 1..=127, _) if !has_offsets => Grid::Integers { largest: count },
            (0, 1..=254, _) if has_offsets => Grid::OffsetIntegers { last: count },
            (1, last, _) if !has_offsets => Grid::Table(table(cursor, last)?),
            (2, 0, _) if !has_offsets => Grid::E4m3,
            (3, 0, FloatType::F32) if !has_offsets => Grid::F16,
            (4, 0, FloatType::F32) if !has_offsets => Grid::Bf16,
            _ => {
                let dtype = elements.dtype();
                let detail = format!("grid {grid_id} of size {count} for {dtype}, flags {flags}");
                return Err(bad(detail).at(6));
            }
        };
        Ok(Self {
            elements,
            scales,
            grid,
            geometry,
            has_exceptions: flags & EXCEPTIONS != 0,
        })
    }

    /// Reads the lengths of the inner frames, which follow the other fields.
    pub fn lens(&self, cursor: &mut Cursor) -> Result<Vec<u64>> {
        let lens = (0..self.frames()).map(|_| cursor.u64("length of an inner frame"));
        lens.collect()
    }

    /// Appends the fields that precede the lengths of the inner frames.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (grid, has_offsets, count) = match &self.grid {
            Grid::Integers { largest } => (0, false, *largest),
            Grid::OffsetIntegers { last } => (0, true, *last),
            // A table has 1 to 256 entries; the field holds the index of the
            // last one.
            Grid::Table(values) => (1, false, (values.len().wrapping_sub(1)).to_le_bytes()[0]),
            Grid::E4m3 => (2, false, 0),
            Grid::F16 => (3, false, 0),
            Grid::Bf16 => (4, false, 0),
        };
        let flags = u8::from(has_offsets) * OFFSETS + u8::from(self.has_exceptions) * EXCEPTIONS;
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.elements as u8, grid, flags]);
        let GroupLayout {
            rows,
            columns,
            group_rows,
            group_columns,
        } = self.geometry;
        for field in [rows, columns, group_rows, group_columns] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&[count, self.scales as u8]);
        if let Grid::Table(values) = &self.grid {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
}

fn float(cursor: &mut Cursor, what: &str) -> Result<FloatType> {
    let at = cursor.position() as u64;
    let id = cursor.u8(what)?;
    let float = FloatType::from_id(id);
    float.ok_or_else(|| bad(format!("{what} {id} does not exist")).at(at))
}

fn geometry(cursor: &mut Cursor) -> Result<GroupLayout> {
    let at = cursor.position() as u64;
    let geometry = GroupLayout {
        rows: cursor.u32("rows")?,
        columns: cursor.u32("columns")?,
        group_rows: cursor.u32("rows of a group")?,
        group_columns: cursor.u32("columns of a group")?,
    };
    let GroupLayout {
        rows,
        columns,
        group_rows,
        group_columns,
    } = geometry;
    let fits = |group: u32, all: u32| (1..=all).contains(&group);
    if fits(group_rows, rows) && fits(group_columns, columns) {
        return Ok(geometry);
    }
    let detail = format!("groups of {group_rows}×{group_columns} in {rows}×{columns} elements");
    Err(Error::malformed(Rule::LatticeShape, detail).at(at))
}

fn table(cursor: &mut Cursor, last: u8) -> Result<Vec<f32>> {
    let at = cursor.position() as u64;
    let bytes = cursor.take(4 * (u64::from(last) + 1), "table")?;
    let (values, _) = bytes.as_chunks();
    let values: Vec<f32> = values.iter().copied().map(f32::from_le_bytes).collect();
    if values.iter().all(|value| value.is_finite()) {
        return Ok(values);
    }
    Err(bad("a value of the table is not finite".into()).at(at))
}

fn bad(detail: String) -> Error {
    Error::malformed(Rule::LatticeHead, detail)
}

/// A matrix in row-major order and the size of its groups. The last groups of a
/// row and of a column are smaller if the matrix ends inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLayout {
    /// Number of rows of the matrix.
    pub rows: u32,
    /// Number of columns of the matrix.
    pub columns: u32,
    /// Number of rows of a group, at most `rows`.
    pub group_rows: u32,
    /// Number of columns of a group, at most `columns`.
    pub group_columns: u32,
}

impl GroupLayout {
    /// Returns the number of elements of the matrix.
    #[must_use]
    pub fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    /// Returns the number of groups across one row.
    #[must_use]
    pub(crate) fn groups_across(&self) -> u64 {
        u64::from(self.columns.div_ceil(self.group_columns))
    }

    /// Returns the number of groups of the matrix.
    #[must_use]
    pub fn groups(&self) -> u64 {
        u64::from(self.rows.div_ceil(self.group_rows)) * self.groups_across()
    }

    /// Returns the ranges of rows and of columns of group `number`.
    #[must_use]
    pub fn group(&self, number: u64) -> (Range<u64>, Range<u64>) {
        let span = |index: u64, step: u32, end: u32| {
            let start = index * u64::from(step);
            start..(start + u64::from(step)).min(end.into())
        };
        let across = self.groups_across();
        (
            span(number / across, self.group_rows, self.rows),
            span(number % across, self.group_columns, self.columns),
        )
    }

    /// Returns the number of elements of group `number`, which is smaller at the
    /// lower and right edges of the matrix if the groups do not divide it.
    #[must_use]
    pub(crate) fn group_elements(&self, number: u64) -> u64 {
        let (rows, columns) = self.group(number);
        (rows.end - rows.start) * (columns.end - columns.start)
    }
}
