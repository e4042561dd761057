//! Selecting tensors and their order, ranges of their rows, and parts on any axis.

use std::cmp::Ordering;
use std::ops::Range;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use zstn::{Error, Reader, Result, RowsPlan, Selection as Elements};
use zstn_core::dtype::Dtype;
use zstn_core::model::{Model, TensorInfo};

use super::pattern::Pattern;
use super::size;

/// Options that select and order tensors.
#[derive(Args)]
pub struct Selection {
    /// Only tensors whose names match, like 'layers.3.*' (repeatable)
    #[arg(long = "name", value_name = "PATTERN")]
    names: Vec<Pattern>,
    /// Only tensors of this dtype, like BF16 (repeatable)
    #[arg(long = "dtype", value_name = "DTYPE", value_parser = dtype)]
    dtypes: Vec<Dtype>,
    /// Order: as in the file, by name, or largest first by size, stored size or
    /// ratio
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Order,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    #[default]
    File,
    Name,
    Size,
    Stored,
    Ratio,
}

fn dtype(text: &str) -> Result<Dtype, String> {
    Dtype::from_name(text).ok_or_else(|| format!("`{text}` is not a dtype, such as BF16 or F32"))
}

impl Selection {
    /// Returns whether the options may exclude tensors.
    pub fn is_partial(&self) -> bool {
        !self.names.is_empty() || !self.dtypes.is_empty()
    }

    /// Returns the numbers of the selected tensors, in order.
    ///
    /// # Errors
    /// [`Error::Usage`] if a pattern matches no name.
    pub fn of(&self, reader: &Reader) -> Result<Vec<usize>> {
        let model = reader.model();
        for pattern in &self.names {
            matching(reader, pattern)?;
        }
        let tensors = model.tensors();
        let is_chosen = |tensor: &TensorInfo| {
            let is_named = self
                .names
                .iter()
                .any(|pattern| pattern.matches(&tensor.name));
            (self.names.is_empty() || is_named)
                && (self.dtypes.is_empty() || self.dtypes.contains(&tensor.dtype))
        };
        let numbers = 0..tensors.len();
        let mut chosen: Vec<usize> = numbers.filter(|n| is_chosen(&tensors[*n])).collect();
        match self.sort {
            Order::File => {}
            order => chosen.sort_by(|a, b| order.compare(&tensors[*a], &tensors[*b])),
        }
        if self.reverse {
            chosen.reverse();
        }
        Ok(chosen)
    }
}

impl Order {
    fn compare(self, a: &TensorInfo, b: &TensorInfo) -> Ordering {
        let stored = |tensor: &TensorInfo| match tensor.alias_of {
            Some(_) => 0,
            None => tensor.stored_share_bytes(),
        };
        match self {
            Self::File => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
            Self::Size => b.original_len_bytes().cmp(&a.original_len_bytes()),
            Self::Stored => stored(b).cmp(&stored(a)),
            Self::Ratio => {
                // a/b > c/d is compared as a·d > c·b. Tensors without stored bytes of
                // their own are last.
                let [(a_len, a_stored), (b_len, b_stored)] = [a, b].map(|tensor| {
                    let stored = u128::from(stored(tensor));
                    match stored {
                        0 => (0, 1),
                        stored => (u128::from(tensor.original_len_bytes()), stored),
                    }
                });
                (b_len * a_stored).cmp(&(a_len * b_stored))
            }
        }
    }
}

/// Returns the numbers of the tensors that a pattern matches, in the model's order. A
/// tensor whose name is the pattern's text takes precedence.
///
/// # Errors
/// The errors of [`Reader::find`] for a name that does not exist, and [`Error::Usage`]
/// for a pattern without matches.
pub fn matching(reader: &Reader, pattern: &Pattern) -> Result<Vec<usize>> {
    let model: &Model = reader.model();
    if let Ok(number) = model.find(pattern.text()) {
        return Ok(vec![number]);
    }
    if !pattern.is_wild() {
        // Returns the error, which names the file and similar tensor names.
        reader.find(pattern.text())?;
    }
    let tensors = model.tensors().iter().enumerate();
    let found: Vec<usize> = tensors
        .filter(|(_, tensor)| pattern.matches(&tensor.name))
        .map(|(number, _)| number)
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Usage(format!(
            "no tensor matches {}; `zstn ls` lists their names",
            pattern.text()
        ))),
    }
}

/// A range of rows: `5`, `5..7`, `5:7`. If a bound is omitted, the range begins or ends
/// where the tensor does. A negative number counts from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowBounds {
    start: Bound,
    /// The bound after the last row.
    end: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// A number of rows, counted from the first row.
    FromStart(u64),
    /// A number of rows, counted back from the end of the tensor; 0 is the end itself.
    FromEnd(u64),
}

use Bound::{FromEnd, FromStart};

impl FromStr for RowBounds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bounds = match text.split_once("..").or_else(|| text.split_once(':')) {
            Some((start, end)) => Self {
                start: bound(start)?.unwrap_or(FromStart(0)),
                end: bound(end)?.unwrap_or(FromEnd(0)),
            },
            None => {
                let start =
                    bound(text)?.ok_or("write one row, like 5, or a range, like 100..200")?;
                let end = match start {
                    FromStart(number) => FromStart(number.saturating_add(1)),
                    FromEnd(back) => FromEnd(back - 1),
                };
                Self { start, end }
            }
        };
        match bounds {
            Self {
                start: FromStart(start),
                end: FromStart(end),
            } if end < start => Err(format!("the end {end} comes before {start}")),
            Self {
                start: FromEnd(start),
                end: FromEnd(end),
            } if end > start => Err(format!("the end -{end} comes before -{start}")),
            bounds => Ok(bounds),
        }
    }
}

/// Parses a bound, which is `None` if it is omitted.
fn bound(text: &str) -> Result<Option<Bound>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let (digits, is_from_end) = match text.strip_prefix('-') {
        None => (text, false),
        Some(digits) => (digits, true),
    };
    match digits.parse() {
        // -0 is row 0, as in Python.
        Ok(0) => Ok(Some(FromStart(0))),
        Ok(number) if is_from_end => Ok(Some(FromEnd(number))),
        Ok(number) => Ok(Some(FromStart(number))),
        Err(_) => Err(format!(
            "\"{text}\" is not the number of a row; write one row, like 5, or a range, like \
             100..200"
        )),
    }
}

impl RowBounds {
    /// Returns the rows of a tensor with `count` rows. Fails if a negative bound is
    /// before the first row.
    fn of(self, count: u64) -> Result<Range<u64>> {
        let [start, end] = [self.start, self.end].map(|bound| match bound {
            FromStart(number) => Ok(number),
            FromEnd(back) => count.checked_sub(back).ok_or_else(|| {
                Error::Usage(format!(
                    "there is no row -{back}: the tensor has {count} rows"
                ))
            }),
        });
        let (start, end) = (start?, end?);
        // If the end is omitted and the start lies beyond it, the range is empty, so
        // that the reader reports the start as out of range.
        let end = match self.end {
            FromEnd(0) => end.max(start),
            _ => end,
        };
        if end < start {
            return Err(Error::Usage(format!(
                "rows {start}..{end}: the end comes before the start; the tensor has {count} rows"
            )));
        }
        Ok(start..end)
    }
}

/// The selected indices of the first axes of a tensor, as `10:20,:,7`. The other axes
/// are selected whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisBounds(Vec<(String, RowBounds)>);

impl FromStr for AxisBounds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let axes = text.split(',').map(|entry| {
            let entry = entry.trim();
            let bounds = entry.parse().map_err(|_| {
                format!(
                    "\"{entry}\" is no selection of an axis; write : for all of it, one index, \
                     like 7, or a range, like 10:20"
                )
            });
            Ok((entry.to_owned(), bounds?))
        });
        axes.collect::<std::result::Result<_, _>>().map(Self)
    }
}

impl AxisBounds {
    /// Returns the selected elements of a tensor, and their shape without the axes of
    /// which one index is selected.
    pub fn of(&self, tensor: &TensorInfo) -> Result<(Elements, Vec<u64>)> {
        let mut ranges = Vec::new();
        // `Selection::ranges` refuses more entries than axes.
        for (axis, (entry, bounds)) in self.0.iter().enumerate() {
            let len = tensor.shape.get(axis).copied().unwrap_or(0);
            let range = bounds.of(len).map_err(|_| {
                let (name, shape) = (&tensor.name, &tensor.shape);
                Error::Usage(format!(
                    "{entry} is not among the {len} indices of axis {axis} of {name}: the shape \
                     is {shape:?}"
                ))
            });
            ranges.push(range?);
        }
        let elements = Elements::ranges(tensor, &ranges)?;
        let is_kept = |axis: &usize| {
            let entry = self.0.get(*axis);
            entry.is_none_or(|(entry, _)| entry.contains(':') || entry.contains(".."))
        };
        let axes = (0..elements.shape().len()).filter(is_kept);
        let shape = axes.map(|axis| elements.shape()[axis]).collect();
        Ok((elements, shape))
    }
}

/// Plans how to read the rows of the tensor `name`.
pub fn plan_rows(reader: &Reader, name: &str, bounds: &RowBounds) -> Result<RowsPlan> {
    let count = reader.find(name)?.shape.first().copied();
    reader.plan_rows(name, bounds.of(count.unwrap_or(0))?)
}

/// Returns a description of how much is fetched for the rows.
pub fn rows_cost(reader: &Reader, rows: &RowsPlan) -> Result<String> {
    let stored = size::bytes(rows.stored_len_bytes());
    let tensor = reader.find(rows.name())?;
    Ok(match rows.fetched_len_bytes() {
        Some(fetched) => format!("{} of {stored}", size::bytes(fetched)),
        None if rows.span() == (0..tensor.len_bytes()) => format!("all {stored}"),
        None if tensor.base.is_some() => format!("all {stored}, with the base's"),
        None => format!("all {stored}: this tensor is not stored in blocks"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_as_in_rust_and_python() {
        let rows = |text: &str| text.parse::<RowBounds>().map(|bounds| bounds.of(10).ok());
        for (text, range) in [
            ("2..5", 2..5),
            (" 2 .. ", 2..10),
            ("..3", 0..3),
            ("..", 0..10),
            ("12..", 12..12),
            ("5", 5..6),
            ("-1", 9..10),
            ("-10", 0..1),
            ("5:7", 5..7),
            ("-5..", 5..10),
            (":-2", 0..8),
            ("-4:-2", 6..8),
            ("-0..", 0..10),
        ] {
            assert_eq!(rows(text), Ok(Some(range)), "{text}");
        }
        for refused in [
            "a..b", "5..2", "-2..-3", "1...2", "1:2:3", "--1", "-", "+-1", "",
        ] {
            assert!(rows(refused).is_err(), "{refused}");
        }
        for missing in ["-11..", "..-11", "-11", "8..-5"] {
            assert_eq!(rows(missing), Ok(None), "{missing}");
        }
    }

    #[test]
    fn axes_are_written_like_rows_with_commas() {
        for (text, count) in [(":", 1), ("10:20, :,7", 3), ("..,-1,3..", 3)] {
            assert_eq!(
                text.parse::<AxisBounds>().map(|axes| axes.0.len()),
                Ok(count)
            );
        }
        for refused in ["", "1,,2", "1,", "a", "1:2:3", "5:2"] {
            assert!(refused.parse::<AxisBounds>().is_err(), "{refused}");
        }
    }
}
