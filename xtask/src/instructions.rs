//! The verb `instructions`, which counts the instructions of each stage of packing and
//! reading and compares them with `tests/instructions.json`. Clocks on shared machines
//! hide a regression of 10 %, while instruction counts are stable.

use std::collections::BTreeMap;
use std::thread;

use anyhow::anyhow;
use serde::{Deserialize, Serialize};

use crate::debian_programs::{self, VALGRIND};
use crate::prelude::*;

const FILE: &str = "tests/instructions.json";
/// The function in `tests/bench/src/stage.rs` whose instructions are counted, including
/// its callees.
const COUNTED: &str = "stage::counted*";
/// Settings of glibc with which it copies and fills memory in loops. On some processors, it
/// otherwise uses single instructions, which valgrind counts once for every byte.
const NO_STRING_INSTRUCTIONS: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824:\
     glibc.cpu.x86_rep_stosb_threshold=1073741824";
/// Largest accepted increase in percent.
const ALLOWED: f64 = 5.0;

#[derive(clap::Args)]
pub struct Options {
    /// Only stages whose name contains this, such as "Huffman"
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    only: String,
    /// Update the file instead of comparing the counts with it
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// The contents of [`FILE`].
#[derive(Clone, Serialize, Deserialize)]
struct Record {
    /// The conditions that influence the counts in addition to the source: versions of
    /// compilers, and the processor features that valgrind emulates.
    conditions: BTreeMap<String, String>,
    /// Instructions per byte by stage, rounded to three decimals.
    instructions_per_byte: BTreeMap<String, f64>,
}

pub fn run(options: &Options) -> Result<()> {
    let valgrind = VALGRIND.find_or_get()?.with_context(|| {
        let by_hand = debian_programs::by_hand(&["valgrind"]);
        format!("instructions are counted by valgrind, which is missing: {by_hand}")
    })?;
    let counted = count(&valgrind, &options.only)?;
    let old = match options.write && !path(FILE).exists() {
        true => counted.clone(),
        false => Record::read()?,
    };
    let (table, judgement) = compare(&old, &counted, options.only.is_empty());
    println!("\n{table}");
    if options.write {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        return Ok(fs::write(path(FILE), text)?);
    }
    judgement.map(|summary| println!("{summary}"))
}

/// Runs the suite. Without valgrind, it is left out.
pub fn suite() -> Result<()> {
    let Some(valgrind) = VALGRIND.find_or_get()? else {
        return Ok(());
    };
    let counted = count(&valgrind, "")?;
    step("comparison with the recorded instructions", |step| {
        let (table, judgement) = compare(&Record::read()?, &counted, true);
        step.note(judgement.with_context(|| format!("too many instructions\n\n{table}"))?);
        Ok(())
    })
}

impl Record {
    fn read() -> Result<Self> {
        serde_json::from_slice(&fs::read(path(FILE))?).context(FILE)
    }
}

/// Counts every stage whose name contains `only`, under valgrind.
fn count(valgrind: &Path, only: &str) -> Result<Record> {
    let program = cargo::release("--package zstn-bench --bin stage", "stage")?;
    let profiles = target("instructions");
    fs::create_dir_all(&profiles)?;
    let listed = ask(Command::new(&program).arg("--list"))?;
    let stages: Vec<_> = listed.lines().filter(|name| name.contains(only)).collect();
    ensure!(
        !stages.is_empty(),
        "no stage has this in its name; there are:\n\n{listed}"
    );
    let counted = step("instructions of the stages", |step| {
        let shown = paths::show(&profiles);
        step.after(format!("profiles for callgrind_annotate: {shown}"));
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let count = |name: &str| {
            let count = count_one(valgrind, &program, &profiles, name)?;
            Ok((name.to_owned(), count))
        };
        process::in_parallel(stages, workers, count)
            .into_iter()
            .collect()
    })?;
    let cc = ask(&mut cmd("cc --version")).unwrap_or_default();
    let conditions = [
        ("rustc", cargo::rustc_field("release")?),
        ("host", cargo::rustc_field("host")?),
        ("cc", cc.lines().next().unwrap_or("none").to_owned()),
        ("vectors", vectors().to_owned()),
    ];
    Ok(Record {
        conditions: conditions
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        instructions_per_byte: counted,
    })
}

/// Returns the widest vectors of this processor that valgrind emulates. It hides
/// AVX-512 and the SHA instructions from the program.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "AVX2";
    }
    "of the target"
}

/// Returns the instructions per byte of one stage.
fn count_one(valgrind: &Path, program: &Path, profiles: &Path, stage: &str) -> Result<f64> {
    let profile = profiles.join(format!("{}.callgrind", steps::file_name(stage)));
    let mut command = debian_programs::valgrind_at(valgrind);
    command
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .args([program.as_os_str(), stage.as_ref()])
        .env("GLIBC_TUNABLES", NO_STRING_INSTRUCTIONS);
    let output = command.output().context("valgrind could not be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {said}");
    let bytes = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse::<f64>();
    let bytes = bytes.context("the program did not report how many bytes it processed")?;
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let instructions: Option<f64> = collected.and_then(|(_, count)| count.trim().parse().ok());
    match instructions.with_context(|| format!("valgrind reported no instructions: {said}"))? {
        0.0 => bail!("valgrind has found no function {COUNTED}"),
        instructions => Ok((instructions / bytes * 1000.0).round() / 1000.0),
    }
}

/// Returns a table of recorded and new counts, and a summary. It is an error if a stage
/// executes too many instructions, is not recorded, or, if all have been counted, was
/// not counted; unless the conditions differ from the recorded ones.
fn compare(old: &Record, new: &Record, is_all: bool) -> (String, Result<String>) {
    let (was, is) = (&old.instructions_per_byte, &new.instructions_per_byte);
    let mut names: Vec<&String> = is.keys().collect();
    names.extend(was.keys().filter(|name| is_all && !is.contains_key(*name)));
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0).max(20);
    let (mut least, mut most, mut over) = (0.0f64, 0.0f64, Vec::new());
    let mut table = format!(
        "{:width$}       was        is    change\n",
        "instructions a byte"
    );
    for name in &names {
        let counts = [was, is].map(|counts| counts.get(*name));
        let change = counts[0]
            .zip(counts[1])
            .map(|(was, is)| (is / was - 1.0) * 100.0);
        least = least.min(change.unwrap_or(0.0));
        most = most.max(change.unwrap_or(0.0));
        let is_over = change.is_none_or(|change| change > ALLOWED);
        if is_over {
            over.push(name.as_str());
        }
        let [was, is] =
            counts.map(|count| count.map_or("–".into(), |count| format!("{count:.3}")));
        let change = change.map_or("–".into(), |change| format!("{change:+.1} %"));
        let mark = if is_over { "  !" } else { "" };
        table += &format!("{name:width$} {was:>9} {is:>9} {change:>9}{mark}\n");
    }
    let differs = |name: &&String| old.conditions.get(*name) != new.conditions.get(*name);
    let differences: Vec<_> = new.conditions.keys().filter(differs).cloned().collect();
    let range = format!("{} stages, {least:+.1} to {most:+.1} %", names.len());
    let judgement = match (differences.join(", "), over.join("; ")) {
        (same, none) if same.is_empty() && none.is_empty() => Ok(range),
        (same, over) if same.is_empty() => Err(anyhow!(
            "more than {ALLOWED} % above {FILE}, or missing from it, or not counted: {over}. If that \
             is intended, `cargo xtask instructions --write` renews the file."
        )),
        (others, _) => Ok(format!(
            "{range}; not judged, because they were recorded with another {others}"
        )),
    };
    (table, judgement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(compiler: &str, counts: &[(&str, f64)]) -> Record {
        Record {
            conditions: BTreeMap::from([("rustc".to_owned(), compiler.to_owned())]),
            instructions_per_byte: counts
                .iter()
                .map(|(name, count)| ((*name).into(), *count))
                .collect(),
        }
    }

    #[test]
    fn a_twentieth_more_is_allowed() {
        let old = record("1", &[("a", 2.0), ("b", 4.0)]);
        let judge = |new: &Record, is_all| compare(&old, new, is_all).1;
        assert!(judge(&record("1", &[("a", 2.09), ("b", 1.0)]), true).is_ok());
        let refused = judge(&record("1", &[("a", 2.0), ("b", 4.21)]), true);
        assert!(refused.unwrap_err().to_string().contains(": b."));
        assert!(judge(&record("1", &[("a", 2.0), ("b", 4.0), ("c", 1.0)]), true).is_err());
        assert!(judge(&record("1", &[("a", 2.0)]), true).is_err());
        assert!(judge(&record("1", &[("a", 2.0)]), false).is_ok());
    }

    #[test]
    fn another_compiler_is_not_judged() {
        let (old, new) = (record("1", &[("a", 2.0)]), record("2", &[("a", 4.0)]));
        let (table, judgement) = compare(&old, &new, true);
        assert!(judgement.expect("not judged").contains("rustc"));
        assert!(table.contains("+100.0 %"));
    }
}
