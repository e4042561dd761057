//! Counts the tests that a runner reports, so that a run without any tests fails.

use anyhow::{Result, bail};

use crate::step::Step;

/// The totals of all summaries in a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    passed: u64,
    skipped: u64,
}

impl Counts {
    /// Parses the summaries of cargo's test harness, Node's runner, Python's unittest,
    /// and pytest.
    pub fn read(log: &str) -> Self {
        let mut counts = Self::default();
        for line in log.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("test result: ok. ") {
                counts.passed += before(rest, " passed");
                counts.skipped += before(rest, " ignored");
            } else if let Some(rest) = line.strip_prefix("# ").or(line.strip_prefix("ℹ ")) {
                counts.passed += after(rest, "pass ");
                counts.skipped += after(rest, "skipped ");
            } else if let Some((rest, _)) = line.split_once(" in ")
                && rest.starts_with(|first: char| first.is_ascii_digit())
                && rest.contains(" passed")
            {
                // A summary of pytest is "3 passed, 1 skipped in 0.5s".
                counts.passed += before(rest, " passed");
                if let Some((_, rest)) = rest.split_once(", ") {
                    counts.skipped += before(rest, " skipped");
                }
            } else if let Some(rest) = line.strip_prefix("Ran ") {
                counts.passed += before(rest, " test");
            } else if let Some((_, rest)) = line
                .strip_prefix("OK (")
                .and_then(|rest| rest.split_once("skipped="))
            {
                let skipped = after(&format!("skipped {rest}"), "skipped ");
                counts.skipped += skipped;
                // unittest counts a skipped test as run.
                counts.passed = counts.passed.saturating_sub(skipped);
            }
        }
        counts
    }

    fn describe(&self) -> String {
        let noun = if self.passed == 1 { "test" } else { "tests" };
        match self.skipped {
            0 => format!("{} {noun}", self.passed),
            skipped => format!("{} {noun}, {skipped} skipped", self.passed),
        }
    }
}

/// Sets the step's note to the number of tests. No tests at all is an error.
pub fn note(step: &mut Step) -> Result<()> {
    let counts = Counts::read(&step.output()?);
    if counts.passed == 0 {
        bail!("no test ran");
    }
    step.note(counts.describe());
    Ok(())
}

/// Returns the number right before the first occurrence of `word`.
fn before(text: &str, word: &str) -> u64 {
    text.find(word)
        .and_then(|end| text[..end].rsplit(|c: char| !c.is_ascii_digit()).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Returns the number right after `word`, if `text` begins with it.
fn after(text: &str, word: &str) -> u64 {
    text.strip_prefix(word)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, skipped: u64) -> Counts {
        Counts { passed, skipped }
    }

    #[test]
    fn cargo_reports_once_per_binary() {
        let log = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Counts::read(log), counts(42, 1));
    }

    #[test]
    fn node_reports_in_two_styles() {
        let tap = "# tests 9\n# suites 0\n# pass 8\n# fail 0\n# skipped 1\n# todo 0\n";
        let spec = "ℹ tests 9\nℹ pass 8\nℹ fail 0\nℹ skipped 1\n";
        assert_eq!(Counts::read(tap), counts(8, 1));
        assert_eq!(Counts::read(spec), counts(8, 1));
    }

    #[test]
    fn unittest_counts_skipped_tests_as_run() {
        assert_eq!(
            Counts::read("Ran 12 tests in 3.2s\n\nOK (skipped=2)\n"),
            counts(10, 2)
        );
        assert_eq!(Counts::read("Ran 1 test in 0.1s\n\nOK\n"), counts(1, 0));
    }

    #[test]
    fn silence_is_no_test() {
        assert_eq!(Counts::read("Compiling zstn\n"), counts(0, 0));
    }
}
