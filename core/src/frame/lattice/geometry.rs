//! The division of a matrix into groups.

use core::ops::Range;

/// A matrix in row-major order and the size of its groups. The last groups of a
/// row and of a column are smaller if the matrix ends inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Number of rows of the matrix.
    pub rows: u32,
    /// Number of columns of the matrix.
    pub columns: u32,
    /// Number of rows of a group, at most `rows`.
    pub group_rows: u32,
    /// Number of columns of a group, at most `columns`.
    pub group_columns: u32,
}

impl Geometry {
    /// Returns the number of elements of the matrix.
    #[must_use]
    pub fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    /// Returns the number of groups across one row.
    #[must_use]
    pub fn groups_across(&self) -> u64 {
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

    /// Returns the number of elements of group `number`.
    #[must_use]
    pub fn group_elements(&self, number: u64) -> u64 {
        let (rows, columns) = self.group(number);
        (rows.end - rows.start) * (columns.end - columns.start)
    }
}
