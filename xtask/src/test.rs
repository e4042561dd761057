//! The verb `test`, which runs several test suites at a time.

use std::sync::OnceLock;

use crate::npm;
use crate::prelude::*;
use crate::suites::{self, SUITES, Suite};

#[derive(clap::Args)]
#[command(after_help = suites::help())]
pub struct Options {
    /// Run every suite, and whole tables of faults; takes about an hour on two cores
    #[arg(long)]
    all: bool,
    /// Run only this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_parser = suites::names(), conflicts_with = "skip", hide_possible_values = true)]
    only: Vec<String>,
    /// Skip this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_parser = suites::names(), hide_possible_values = true)]
    skip: Vec<String>,
    /// Print a table of all steps with their wall clock and processor time
    #[arg(long)]
    table: bool,
}

/// Number of suites that run at the same time. It exceeds the number of cores of a
/// usual machine, because some suites wait for downloads and others use only one core.
const AT_A_TIME: usize = 4;

/// A tier of tests. [`Tier::All`] includes [`Tier::Default`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The tier for every push. It tests one representative of each class of fault, and
    /// builds WebAssembly modules that compile fast.
    Default,
    /// The tier for every night, for releases, and for all other verbs. It tests whole
    /// tables of faults, and builds the published modules.
    All,
}

static TIER: OnceLock<Tier> = OnceLock::new();

impl Tier {
    /// Returns the tier of this process.
    pub fn of_process() -> Self {
        *TIER.get_or_init(|| Self::All)
    }

    /// Returns the value of `$ZSTN_TESTS`.
    pub fn tests(self) -> &'static str {
        if self == Self::All { "all" } else { "" }
    }
}

pub fn run(options: &Options) -> Result<()> {
    TIER.get_or_init(|| match options.all {
        true => Tier::All,
        false => Tier::Default,
    });
    step("free disk space", check_disk)?;
    npm::check()?;
    process::in_parallel(chosen(options), AT_A_TIME, |suite| {
        steps::keep((suite.run)())
    });
    if options.all || options.table {
        steps::table();
    }
    steps::summary();
    Ok(())
}

/// Returns the suites that `options` select, in starting order.
fn chosen(options: &Options) -> Vec<&'static Suite> {
    let is_in = |list: &[String], suite: &Suite| list.iter().any(|name| name == suite.name);
    let is_chosen = |suite: &&Suite| match options.only.is_empty() {
        true => (options.all || suite.tier == Tier::Default) && !is_in(&options.skip, suite),
        false => is_in(&options.only, suite),
    };
    SUITES.iter().filter(is_chosen).collect()
}

const GIGABYTE: u64 = 1_000_000_000;
/// Space that a clone takes after the default tier has been built, downloaded and
/// tested once.
const DEFAULT_BYTES: u64 = 10 * GIGABYTE;
/// Space that a clone takes after all suites have been run once ([`Tier::All`]).
const ALL_BYTES: u64 = 22 * GIGABYTE;
/// Minimum space for a single build.
const LEAST_BYTES: u64 = GIGABYTE;

/// Fails if the disk of the target directory is full, because linkers then die with a
/// bus error instead of an error message.
fn check_disk(step: &mut Step) -> Result<()> {
    fs::create_dir_all(target(""))?;
    step.note(judge(fs4::available_space(target(""))?)?);
    Ok(())
}

fn judge(free_bytes: u64) -> Result<String> {
    let free = gigabytes(free_bytes);
    ensure!(
        free_bytes > LEAST_BYTES,
        "the disk of the target directory is full: {free} are free. Remove what is not needed \
         (`cargo clean` removes all builds), or set CARGO_TARGET_DIR to a folder on a larger disk"
    );
    let needed = match Tier::of_process() {
        Tier::Default => DEFAULT_BYTES,
        Tier::All => ALL_BYTES,
    };
    Ok(match free_bytes < needed {
        true => format!(
            "a fresh clone takes {}, and only {free} are free: if a linker dies, the disk is full",
            gigabytes(needed)
        ),
        false => format!("{free} free"),
    })
}

fn gigabytes(bytes: u64) -> String {
    let tenths = bytes / (GIGABYTE / 10);
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

/// Returns the numbers of tests in a log, or `None` if there are none.
pub fn count(log: &str) -> Option<String> {
    match counts(log) {
        (0, _) => None,
        (1, 0) => Some("1 test".into()),
        (passed, 0) => Some(format!("{passed} tests")),
        (passed, skipped) => Some(format!("{passed} tests, {skipped} skipped")),
    }
}

/// Returns the numbers of passed and skipped tests in the summaries of cargo's test
/// harness, Node's runner, Python's unittest, and pytest.
fn counts(log: &str) -> (u64, u64) {
    let (mut passed, mut skipped) = (0, 0);
    for line in log.lines().map(str::trim) {
        // Returns the number before or after a word.
        let before = |word: &str| number(line.split(word).next()?.rsplit([' ', ',']).next()?);
        let after = |word: &str| number(line.split_once(word)?.1);
        if line.starts_with("test result: ok. ") {
            passed += before(" passed").unwrap_or(0);
            skipped += before(" ignored").unwrap_or(0);
        } else if line.starts_with("# ") || line.starts_with("ℹ ") {
            passed += after(" pass ").unwrap_or(0);
            skipped += after(" skipped ").unwrap_or(0);
        } else if line.contains(" passed") && line.contains(" in ") && number(line).is_some() {
            // A summary of pytest is "3 passed, 1 skipped in 0.5s".
            passed += before(" passed").unwrap_or(0);
            if line.contains(" skipped") {
                skipped += before(" skipped").unwrap_or(0);
            }
        } else if line.starts_with("Ran ") {
            passed += after("Ran ").unwrap_or(0);
        } else if line.starts_with("OK (") {
            // unittest counts a skipped test as run.
            let count = after("skipped=").unwrap_or(0);
            skipped += count;
            passed = passed.saturating_sub(count);
        }
    }
    (passed, skipped)
}

/// Parses the digits at the beginning of `text`.
fn number(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Verb};
    use clap::Parser;

    #[test]
    fn suites_are_chosen_by_tier_and_name() {
        let names = |arguments: &[&str]| -> Vec<&str> {
            let line = ["xtask", "test"].iter().chain(arguments);
            let Ok(Verb::Test(options)) = Args::try_parse_from(line).map(|args| args.verb) else {
                panic!("{arguments:?} are not understood");
            };
            chosen(&options).iter().map(|suite| suite.name).collect()
        };
        let (default, all) = (names(&[]), names(&["--all"]));
        assert!(all.len() == SUITES.len() && default.len() < all.len());
        assert!(default.iter().all(|name| all.contains(name)));
        assert_eq!(names(&["--only", "fuzz"]), ["fuzz"]);
        assert!(!names(&["--skip", "chromium"]).contains(&"chromium"));
    }

    #[test]
    fn a_full_disk_is_an_error_and_little_space_a_warning() {
        let error = judge(400_000_000).expect_err("full").to_string();
        assert!(
            error.contains("0.4 GB are free") && error.contains("CARGO_TARGET_DIR"),
            "{error}"
        );
        let warning = judge(4_250_000_000).expect("not full");
        assert!(warning.contains("only 4.2 GB are free"), "{warning}");
        assert_eq!(judge(ALL_BYTES).expect("not full"), "22.0 GB free");
    }

    #[test]
    fn tests_of_every_runner_are_counted() {
        let cargo = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(counts(&cargo.repeat(2)), (4, 2));
        assert_eq!(
            counts("# tests 9\n# suites 0\n# pass 8\n# fail 0\n# skipped 1\n# todo 0\n"),
            (8, 1)
        );
        assert_eq!(
            counts("ℹ tests 9\nℹ pass 8\nℹ fail 0\nℹ skipped 1\n"),
            (8, 1)
        );
        assert_eq!(counts("Ran 12 tests in 3.2s\n\nOK (skipped=2)\n"), (10, 2));
        assert_eq!(counts("3 passed, 1 skipped, 2 warnings in 0.5s\n"), (3, 1));
        assert_eq!(counts("Compiling zstn\n"), (0, 0));
    }
}
