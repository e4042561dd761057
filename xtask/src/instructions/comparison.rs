//! Compares instruction counts with the recorded ones.

use std::fmt;

use anyhow::{Result, bail};

use super::Counts;
use super::record::Record;

/// Largest accepted increase in percent.
const ALLOWED: f64 = 5.0;

/// The recorded and the new count of a stage.
#[derive(Debug)]
struct Line {
    name: String,
    was: Option<f64>,
    is: Option<f64>,
}

impl Line {
    /// Returns the change in percent, or `None` if either count is missing.
    fn change(&self) -> Option<f64> {
        Some((self.is? / self.was? - 1.0) * 100.0)
    }

    fn is_over(&self) -> bool {
        self.change().is_none_or(|change| change > ALLOWED)
    }
}

/// The recorded and the new counts of all stages.
#[derive(Debug)]
pub struct Comparison {
    lines: Vec<Line>,
    /// Names of the conditions that differ from the recorded ones.
    differences: Vec<String>,
}

impl Comparison {
    /// Compares the stages in `order`. Unless `is_all`, stages of `old` that are
    /// missing from `order` were not selected and are ignored.
    pub fn new(old: &Record, now: &Record, order: &Counts, is_all: bool) -> Self {
        let mut lines: Vec<Line> = order
            .iter()
            .map(|(name, _)| Line {
                name: name.clone(),
                was: old.counts.get(name).copied(),
                is: now.counts.get(name).copied(),
            })
            .collect();
        let gone = old.counts.iter();
        let gone = gone.filter(|(name, _)| is_all && !now.counts.contains_key(*name));
        lines.extend(gone.map(|(name, was)| Line {
            name: name.clone(),
            was: Some(*was),
            is: None,
        }));
        Self {
            lines,
            differences: now.conditions.differences(&old.conditions),
        }
    }

    /// Fails if a stage executes too many instructions, and the counts were made under
    /// the same conditions as the recorded ones.
    pub fn judge(&self) -> Result<()> {
        let over: Vec<&str> = self
            .lines
            .iter()
            .filter(|line| line.is_over())
            .map(|line| line.name.as_str())
            .collect();
        if over.is_empty() || !self.differences.is_empty() {
            return Ok(());
        }
        bail!(
            "more than {ALLOWED} % above {}, or not in it or not counted any more: {}. If that is meant to \
             be so, `cargo xtask instructions --write` renews the file.",
            super::FILE,
            over.join("; ")
        )
    }

    /// Returns a short summary.
    pub fn summary(&self) -> String {
        let changes = self.lines.iter().filter_map(Line::change);
        let (least, most) = changes.fold((0f64, 0f64), |(least, most), change| {
            (least.min(change), most.max(change))
        });
        let range = format!("{} stages, {least:+.1} to {most:+.1} %", self.lines.len());
        match self.differences.is_empty() {
            true => range,
            false => format!("{range}; {}", self.caveat()),
        }
    }

    fn caveat(&self) -> String {
        format!(
            "not judged, for they were recorded with another: {}",
            self.differences.join(", ")
        )
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = self.lines.iter().map(|line| line.name.chars().count());
        let width = names.max().unwrap_or_default().max(20);
        let title = "instructions a byte";
        writeln!(f, "{title:width$} {:>9} {:>9} {:>9}", "was", "is", "change")?;
        let count = |count: Option<f64>| count.map_or("–".into(), |count| format!("{count:.3}"));
        for line in &self.lines {
            let change = match line.change() {
                Some(change) => format!("{change:+.1} %"),
                None => "–".into(),
            };
            writeln!(
                f,
                "{:width$} {:>9} {:>9} {change:>9}{}",
                line.name,
                count(line.was),
                count(line.is),
                if line.is_over() { "  !" } else { "" }
            )?;
        }
        if !self.differences.is_empty() {
            writeln!(f, "\n{}", self.caveat())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::record::Conditions;
    use super::*;

    fn record(compiler: &str, counts: &[(&str, f64)]) -> (Record, Counts) {
        let conditions = Conditions {
            known: BTreeMap::from([("rustc".to_owned(), compiler.to_owned())]),
        };
        let counts: Counts = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        (Record::new(conditions, &counts), counts)
    }

    fn judged(old: &Record, (now, counts): &(Record, Counts)) -> Result<()> {
        Comparison::new(old, now, counts, true).judge()
    }

    #[test]
    fn a_twentieth_more_is_allowed() {
        let (old, _) = record("1", &[("a", 2.0), ("b", 4.0)]);
        assert!(judged(&old, &record("1", &[("a", 2.09), ("b", 1.0)])).is_ok());
        let refused = judged(&old, &record("1", &[("a", 2.0), ("b", 4.21)]));
        assert!(refused.unwrap_err().to_string().contains(": b."));
    }

    #[test]
    fn stages_come_and_go_with_the_file() {
        let (old, _) = record("1", &[("a", 2.0)]);
        let added = record("1", &[("a", 2.0), ("b", 1.0)]);
        assert!(judged(&old, &added).is_err());
        assert!(judged(&added.0, &record("1", &[("a", 2.0)])).is_err());
        let (now, counts) = record("1", &[("a", 2.0)]);
        assert!(
            Comparison::new(&added.0, &now, &counts, false)
                .judge()
                .is_ok()
        );
    }

    #[test]
    fn another_compiler_is_not_judged() {
        let (old, _) = record("1", &[("a", 2.0)]);
        let now = record("2", &[("a", 4.0)]);
        assert!(judged(&old, &now).is_ok());
        let comparison = Comparison::new(&old, &now.0, &now.1, true);
        assert!(comparison.summary().contains("rustc"));
        assert!(comparison.to_string().contains("+100.0 %"));
    }
}
