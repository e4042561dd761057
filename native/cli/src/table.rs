//! Aligned tables without borders.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::UnicodeWidthStr;
use zstn::Result;
use zstn::display::escaped;

use super::terminal::Stdout;

/// Maximum width in terminal columns to which a cell can widen its column. Wider cells
/// overflow. Otherwise, one long name would widen every line.
const MAX_WIDTH: usize = 80;

/// Maximum number of dimensions that are printed.
const MAX_DIMENSIONS: usize = 32;

/// Prints a table. Columns whose heading begins with `>` are right-aligned. `rows` must
/// return the same lines each time: it is called for the widths and again for printing,
/// so that the table is never held in memory.
pub fn print<'a, const N: usize, R>(headings: [&'a str; N], rows: impl Fn() -> R) -> Result<()>
where
    R: Iterator<Item = [Cow<'a, str>; N]>,
{
    let names = headings.map(|heading| heading.trim_start_matches('>'));
    let mut widths = names.map(UnicodeWidthStr::width);
    for row in rows() {
        for (cell, width) in row.iter().zip(&mut widths) {
            let wanted = escaped(cell).width();
            if wanted <= MAX_WIDTH {
                *width = wanted.max(*width);
            }
        }
    }
    let mut out = Stdout::new();
    let mut line = String::new();
    for row in std::iter::once(names.map(Cow::Borrowed)).chain(rows()) {
        line.clear();
        for ((cell, heading), width) in row.iter().zip(headings).zip(widths) {
            let cell = escaped(cell);
            let padding = width.saturating_sub(cell.width());
            let (before, after) = match heading.starts_with('>') {
                true => (padding, 0),
                false => (0, padding),
            };
            line.extend(std::iter::repeat_n(' ', before));
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', after + 2));
        }
        out.line(line.trim_end_matches(' '))?;
    }
    out.finish()
}

/// Returns lines of keys and values, with the values aligned.
pub fn facts(rows: &[(&str, String)]) -> impl Iterator<Item = String> {
    let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    rows.iter()
        .map(move |(key, value)| format!("{key:<width$}  {value}"))
}

/// Prints lines of keys and values to standard output.
pub fn print_facts(rows: &[(&str, String)]) -> Result<()> {
    let mut out = Stdout::new();
    facts(rows).try_for_each(|line| out.line(line))?;
    out.finish()
}

/// Returns a shape such as `[384, 1536]` or `scalar`. A long shape is cut and its
/// number of dimensions appended.
pub fn shape(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".into();
    }
    let mut text = String::from("[");
    let shown = &shape[..shape.len().min(MAX_DIMENSIONS)];
    for (number, dimension) in shown.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{dimension}");
    }
    if shown.len() < shape.len() {
        let _ = write!(text, ", … {} dimensions", shape.len());
    }
    text.push(']');
    text
}

/// Shortens a long name that is printed in the line of another tensor.
pub fn shortened(name: &str) -> Cow<'_, str> {
    let name = escaped(name);
    match name.char_indices().nth(MAX_WIDTH) {
        None => name,
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_shapes_and_names_are_cut() {
        assert_eq!(shape(&[]), "scalar");
        assert_eq!(shape(&[384, 1536]), "[384, 1536]");
        let long = shape(&[7; 1000]);
        assert!(long.starts_with("[7, 7, ") && long.ends_with(", … 1000 dimensions]"));
        assert!(long.len() < 200);
        assert_eq!(shortened("wte.weight"), "wte.weight");
        assert_eq!(shortened(&"ö".repeat(5000)).chars().count(), MAX_WIDTH + 1);
    }
}
