//! The verb `faults`, which runs every fault of `tests/faults` in Rust and in Node, and
//! prints a table of cases and surfaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::args::Faults;
use crate::step::Report;
use crate::tier::Tier;
use crate::workspace::Workspace;
use crate::{node, programs, wasm};

/// A table: the list of its cases in `tests/faults`, and the suites that run them.
struct Table {
    title: &'static str,
    file: &'static str,
    list: &'static str,
    suites: &'static [&'static str],
}

const TABLES: [Table; 4] = [
    Table {
        title: "servers",
        file: "server.json",
        list: "cases",
        suites: &["native", "npm"],
    },
    Table {
        title: "inputs",
        file: "files.json",
        list: "inputs",
        suites: &["native-inputs", "npm-inputs"],
    },
    Table {
        title: "outputs",
        file: "files.json",
        list: "outputs",
        suites: &["native-outputs"],
    },
    Table {
        title: "folders of outputs",
        file: "files.json",
        list: "meanwhile",
        suites: &["native-meanwhile"],
    },
];

const JAVASCRIPT: [&str; 2] = [
    "tests/js/node/faults.test.mjs",
    "tests/js/node/file-faults.test.mjs",
];

/// Number of signals of each kind that every verb receives at random moments.
const MOMENTS: &str = "50";

pub fn run(workspace: &Workspace, report: &Report, options: &Faults) -> Result<()> {
    if options.all {
        return signals(workspace, report);
    }
    report.step("Node and npm", node::check)?;
    report.step("npm packages", |step| node::install(workspace, step))?;
    wasm::build(workspace, report)?;
    report.step("command line and server of faults", |step| {
        programs::build(workspace, step)
    })?;
    // Results of an earlier run must not be mistaken for the current ones.
    let results = workspace.target("faults");
    if results.exists() {
        fs::remove_dir_all(&results).context("the results of the last run cannot be removed")?;
    }
    let native = report.step("faults, native", |step| {
        let mut test = programs::test(workspace);
        test.args(["--test", "http", "--test", "cli", "--", "faults::"]);
        step.run(Tier::All.apply(&mut test))
    });
    let npm = report.step("faults, npm", |step| {
        let mut test = Command::new("node");
        test.arg("--test").args(JAVASCRIPT);
        test.env("ZSTN_FAULT_SERVER", server(workspace));
        step.run(Tier::All.apply(&mut test))
    });
    for table in &TABLES {
        table.print(workspace)?;
    }
    native.and(npm)
}

/// Sends signals at random moments (`tests/rust/faults/signals.rs`).
fn signals(workspace: &Workspace, report: &Report) -> Result<()> {
    report.step("command line and server of faults", |step| {
        programs::build(workspace, step)
    })?;
    report.step("signals at random moments", |step| {
        let mut test = programs::test(workspace);
        test.args(["--test", "faults", "--", "--exact", "signals::signals"])
            .arg("--nocapture")
            .env("ZSTN_FAULT_MOMENTS", MOMENTS);
        step.run(Tier::All.apply(&mut test))?;
        let output = step.output()?;
        let figures = output.lines().find(|line| line.contains(" signals, "));
        step.note(figures.unwrap_or_default());
        Ok(())
    })
}

/// Returns the path of the fault server.
pub fn server(workspace: &Workspace) -> PathBuf {
    let suffix = std::env::consts::EXE_SUFFIX;
    workspace.target(&format!("debug/fault-server{suffix}"))
}

/// The number of runs of a case on a surface, by result.
#[derive(Default, Clone, Copy)]
struct Count {
    passed: usize,
    failed: usize,
}

impl Table {
    fn print(&self, workspace: &Workspace) -> Result<()> {
        let path = workspace.path(&format!("tests/faults/{}", self.file));
        let data: Value = read(&path)?;
        let cases = data[self.list].as_array().context("there are no cases")?;
        let mut surfaces: Vec<String> = Vec::new();
        let mut runs = Vec::new();
        for suite in self.suites {
            let path = workspace.target(&format!("faults/{suite}.json"));
            let suite: Value = read(&path)?;
            for run in suite.as_array().into_iter().flatten() {
                let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
                runs.push((text("case"), text("surface"), run["problem"].is_null()));
            }
            let mut found: Vec<_> = runs.iter().map(|run| run.1.clone()).collect();
            found.retain(|surface| !surfaces.contains(surface));
            found.sort();
            found.dedup();
            surfaces.append(&mut found);
        }
        let names = cases.iter().filter_map(|case| case["name"].as_str());
        let width = names.clone().map(|name| name.chars().count()).max();
        let width = width.unwrap_or_default().max(self.title.len());
        println!("\n{:width$}  {}", self.title, surfaces.join("  "));
        for name in names {
            let cells = surfaces.iter().map(|surface| {
                let mut count = Count::default();
                for run in &runs {
                    if run.0 == name && run.1 == *surface {
                        count.passed += usize::from(run.2);
                        count.failed += usize::from(!run.2);
                    }
                }
                format!("{:<width$}", count.show(), width = surface.len())
            });
            let cells: Vec<_> = cells.collect();
            println!("{name:width$}  {}", cells.join("  ").trim_end());
        }
        let failed = runs.iter().filter(|run| !run.2).count();
        println!("{} runs, {failed} failed", runs.len());
        if runs.is_empty() {
            bail!("no case of {} was run", self.title);
        }
        Ok(())
    }
}

impl Count {
    /// Returns the text of a cell, which is empty if the case does not apply to the
    /// surface.
    fn show(self) -> String {
        match self {
            Self {
                passed: 0,
                failed: 0,
            } => String::new(),
            Self { passed, failed: 0 } => format!("✓ {passed}"),
            Self { passed, failed } => format!("✗ {failed}/{}", passed + failed),
        }
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}
