//! Aligned tables without lines.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// A table with these headings; those that begin with `>` are of numbers and
/// stand to the right.
pub fn new(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(
        headings
            .iter()
            .map(|h| Cell::new(h.trim_start_matches('>'))),
    );
    for (column, heading) in table.column_iter_mut().zip(headings) {
        column.set_padding((0, 2));
        if heading.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// `key  value` lines.
pub fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let lines: Vec<String> = rows
        .iter()
        .map(|(key, value)| format!("{key:<width$}  {value}"))
        .collect();
    lines.join("\n")
}

/// `[384, 1536]`, `scalar`.
pub fn shape(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".into();
    }
    let dimensions: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", dimensions.join(", "))
}
