//! `--rows A..B`: part of a tensor.

use std::ops::Range;
use std::str::FromStr;

use zstn::{Reader, Result};
use zstn_core::model::Rows;

use super::size;

/// Rows as they are written; an end left out is the tensor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    start: u64,
    end: Option<u64>,
}

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| {
            let digits = text.trim();
            digits
                .parse::<u64>()
                .map_err(|_| format!("\"{digits}\" is not the number of a row"))
        };
        let Some((start, end)) = text.split_once("..") else {
            return Err("rows are written like 100..200, the last one left out".into());
        };
        let start = match start.trim() {
            "" => 0,
            start => number(start)?,
        };
        let end = match end.trim() {
            "" => None,
            end => Some(number(end)?),
        };
        match end {
            Some(end) if end < start => Err(format!("the end {end} comes before {start}")),
            end => Ok(Self { start, end }),
        }
    }
}

impl Bounds {
    /// For a tensor of `count` rows; the reader refuses what is not in it.
    fn of(self, count: u64) -> Range<u64> {
        self.start..self.end.unwrap_or(count.max(self.start))
    }
}

/// What reading these rows of the tensor called `name` takes.
pub fn plan(reader: &Reader, name: &str, bounds: &Bounds) -> Result<Rows> {
    let count = reader.find(name)?.shape.first().copied();
    reader.plan_rows(name, bounds.of(count.unwrap_or(0)))
}

/// What is fetched for them, for people.
pub fn cost(reader: &Reader, rows: &Rows) -> Result<String> {
    let stored = size::bytes(reader.frame_size(rows.name())?);
    Ok(match rows.fetched_len_bytes() {
        Some(fetched) => format!("{} of {stored}", size::bytes(fetched)),
        None => format!("all {stored}: this tensor is not stored in blocks"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_end_may_be_left_out() {
        let rows = |text: &str| text.parse::<Bounds>().map(|bounds| bounds.of(10));
        assert_eq!(rows("2..5"), Ok(2..5));
        assert_eq!(rows(" 2 .. "), Ok(2..10));
        assert_eq!(rows("..3"), Ok(0..3));
        assert_eq!(rows(".."), Ok(0..10));
        assert_eq!(rows("12.."), Ok(12..12));
        for refused in ["5", "a..b", "-1..2", "5..2", "1...2", ""] {
            assert!(rows(refused).is_err(), "{refused}");
        }
    }
}
