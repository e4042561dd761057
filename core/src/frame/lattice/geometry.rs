//! Where the groups are in a matrix.

use core::ops::Range;

/// A matrix, row by row, and the groups that it is divided into. The last groups
/// of a row and of a column are smaller where the matrix ends inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
    /// Rows of a group, at most those of the matrix.
    pub group_rows: u32,
    /// Columns of a group, at most those of the matrix.
    pub group_columns: u32,
}

impl Geometry {
    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    /// Returns the number of groups next to each other.
    #[must_use]
    pub fn groups_across(&self) -> u64 {
        u64::from(self.columns.div_ceil(self.group_columns))
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn groups(&self) -> u64 {
        u64::from(self.rows.div_ceil(self.group_rows)) * self.groups_across()
    }

    /// Returns the rows and the columns of a group.
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

    /// Returns the number of elements of a group.
    #[must_use]
    pub fn group_elements(&self, number: u64) -> u64 {
        let (rows, columns) = self.group(number);
        (rows.end - rows.start) * (columns.end - columns.start)
    }
}
