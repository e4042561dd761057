//! The verb `faults`, which runs every fault of `tests/faults` in Rust and in Node, and
//! prints a table of cases and surfaces.

use serde_json::Value;

use crate::prelude::*;
use crate::wasm;

/// The tables: title, file and list of the cases in `tests/faults`, and the suites that
/// run them.
const TABLES: [(&str, &str, &str, &[&str]); 4] = [
    ("servers", "server.json", "cases", &["native", "npm"]),
    (
        "inputs",
        "files.json",
        "inputs",
        &["native-inputs", "npm-inputs"],
    ),
    ("outputs", "files.json", "outputs", &["native-outputs"]),
    (
        "folders of outputs",
        "files.json",
        "meanwhile",
        &["native-meanwhile"],
    ),
];

/// Number of signals of each kind that every verb receives at random moments.
const MOMENTS: &str = "50";

/// Runs the faults, and prints the tables.
pub fn run() -> Result<()> {
    wasm::ready()?;
    cargo::programs()?;
    // Results of an earlier run must not be mistaken for the current ones.
    paths::empty(&target("faults"))?;
    let mut native = cargo::test();
    native.words("--test http --test cli -- faults::");
    let native = report::run("faults, native", &mut native);
    let files = "tests/js/node/faults.test.mjs tests/js/node/file-faults.test.mjs";
    let npm = report::run("faults, npm", cmd("node --test").words(files));
    for (title, file, list, suites) in TABLES {
        print(title, file, list, suites)?;
    }
    native.and(npm)
}

/// Sends signals at random moments (`tests/rust/faults/signals.rs`).
pub fn signals() -> Result<()> {
    cargo::programs()?;
    step("signals at random moments", |step| {
        let mut test = cargo::test();
        test.words("--test faults -- --exact signals::signals --nocapture");
        step.run(test.env("ZSTN_FAULT_MOMENTS", MOMENTS))?;
        let output = step.output()?;
        let figures = output.lines().find(|line| line.contains(" signals, "));
        step.note(figures.unwrap_or_default());
        Ok(())
    })
}

/// Prints the results of the cases in a list. A cell contains the number of runs, and is
/// empty if the case does not apply to the surface.
fn print(title: &str, file: &str, list: &str, suites: &[&str]) -> Result<()> {
    let read = |path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let data = read(path(format!("tests/faults/{file}")))?;
    let cases = data[list].as_array().context("there are no cases")?;
    let mut surfaces: Vec<String> = Vec::new();
    let mut runs = Vec::new();
    for suite in suites {
        let results = read(target(format!("faults/{suite}.json")))?;
        let results = results.as_array().context("there are no results")?;
        let text = |run: &Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
        let mut found: Vec<_> = results.iter().map(|run| text(run, "surface")).collect();
        found.retain(|surface| !surfaces.contains(surface));
        found.sort();
        found.dedup();
        surfaces.append(&mut found);
        for run in results {
            runs.push((
                text(run, "case"),
                text(run, "surface"),
                run["problem"].is_null(),
            ));
        }
    }
    let names = cases.iter().filter_map(|case| case["name"].as_str());
    let widths = names
        .clone()
        .chain([title])
        .map(|name| name.chars().count());
    let width = widths.max().unwrap_or(0);
    println!("\n{title:width$}  {}", surfaces.join("  "));
    for name in names {
        let mut line = format!("{name:width$}");
        for surface in &surfaces {
            let cell = runs.iter().filter(|run| run.0 == name && run.1 == *surface);
            let (passed, failed): (Vec<_>, Vec<_>) = cell.partition(|run| run.2);
            let cell = match (passed.len(), failed.len()) {
                (0, 0) => String::new(),
                (passed, 0) => format!("✓ {passed}"),
                (passed, failed) => format!("✗ {failed}/{}", passed + failed),
            };
            line += &format!("  {cell:<width$}", width = surface.len());
        }
        println!("{}", line.trim_end());
    }
    let failed = runs.iter().filter(|run| !run.2).count();
    println!("{} runs, {failed} failed", runs.len());
    ensure!(!runs.is_empty(), "no case of {title} was run");
    Ok(())
}
