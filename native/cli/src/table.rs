//! Aligned tables without lines.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::UnicodeWidthStr;
use zstn::Result;
use zstn::display::escaped;

use super::stdout::Stdout;

/// Columns of a terminal that a cell may claim for all others of its column;
/// wider ones run over. One long name must not widen every line: the output
/// would grow with lines times the longest name.
const MAX_WIDTH: usize = 80;

/// Dimensions that are listed one by one.
const MAX_DIMENSIONS: usize = 32;

/// Prints a table with these headings; columns whose heading begins with `>`
/// hold numbers and are aligned to the right. `rows` gives the same lines each
/// time: once for the widths, once to print them, so that no table is held in
/// memory.
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

/// `key  value` lines.
pub fn facts(rows: &[(&str, String)]) -> impl Iterator<Item = String> {
    let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    rows.iter()
        .map(move |(key, value)| format!("{key:<width$}  {value}"))
}

/// Prints such lines to standard output.
pub fn print_facts(rows: &[(&str, String)]) -> Result<()> {
    let mut out = Stdout::new();
    facts(rows).try_for_each(|line| out.line(line))?;
    out.finish()
}

/// `[384, 1536]`, `scalar`; of very many dimensions the first and their
/// number.
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

/// A name that is repeated in other lines than its own, cut if it is long.
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
