//! The verb `instructions`, which counts the instructions of each stage of packing and
//! reading and compares them with recorded counts. Clocks on shared machines hide a
//! regression of 10 %, while instruction counts are stable.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::args::Instructions;
use crate::cargo::cargo;
use crate::process;
use crate::step::{self, Report, Step};
use crate::valgrind::{self, Valgrind};
use crate::workspace::Workspace;

mod comparison;
mod record;

use comparison::Comparison;
use record::{Conditions, Record};

const FILE: &str = "tests/instructions.json";

/// The function in `tests/bench/src/stage.rs` whose instructions are counted, including
/// its callees.
const COUNTED: &str = "stage::counted*";

/// Stages with their instructions per byte, in the order of packing.
type Counts = Vec<(String, f64)>;

/// Runs the verb.
pub fn run(workspace: &Workspace, report: &Report, options: &Instructions) -> Result<()> {
    let valgrind = report.step("valgrind", |step| valgrind::ready(workspace, step))?;
    let Some(valgrind) = valgrind else {
        bail!(
            "instructions are counted by valgrind, which is missing: {}",
            apt::by_hand(&[valgrind::PACKAGE])
        );
    };
    let counts = report.step("instructions of the stages", |step| {
        let only = options.only.as_deref().unwrap_or_default();
        count(workspace, step, &valgrind, only)
    })?;
    let path = workspace.path(FILE);
    let now = Record::new(Conditions::here(workspace)?, &counts);
    let old = match options.write && !path.exists() {
        true => now.clone(),
        false => Record::read(&path)?,
    };
    let comparison = Comparison::new(&old, &now, &counts, options.only.is_none());
    println!("\n{comparison}");
    if options.write {
        return now.write(&path);
    }
    comparison.judge()
}

/// Runs the step of `cargo xtask test`.
pub fn check(workspace: &Workspace, step: &mut Step, valgrind: Option<&Valgrind>) -> Result<()> {
    let Some(valgrind) = valgrind else {
        step.note("left out: there is no valgrind");
        return Ok(());
    };
    let counts = count(workspace, step, valgrind, "")?;
    let old = Record::read(&workspace.path(FILE))?;
    let now = Record::new(Conditions::here(workspace)?, &counts);
    let comparison = Comparison::new(&old, &now, &counts, true);
    step.note(comparison.summary());
    comparison
        .judge()
        .with_context(|| format!("too many instructions\n\n{comparison}"))
}

/// Counts every stage whose name contains `only`, under valgrind.
fn count(
    workspace: &Workspace,
    step: &mut Step,
    valgrind: &Valgrind,
    only: &str,
) -> Result<Counts> {
    let arguments = ["build", "--release", "--package", "zstn-bench"];
    step.run(cargo(workspace).args(arguments).args(["--bin", "stage"]))?;
    let program = workspace.target(&format!("release/stage{}", std::env::consts::EXE_SUFFIX));
    let profiles = workspace.target("instructions");
    std::fs::create_dir_all(&profiles)
        .with_context(|| format!("{} cannot be created", profiles.display()))?;
    let listed = process::ask(Command::new(&program).arg("--list"))?;
    let stages: Vec<&str> = listed.lines().filter(|name| name.contains(only)).collect();
    if stages.is_empty() {
        bail!("no stage has \"{only}\" in its name; there are:\n\n{listed}");
    }

    let queue = Mutex::new(stages.iter());
    let worker = || {
        let mut done = Vec::new();
        loop {
            let next = queue.lock().map_or(None, |mut queue| queue.next());
            let Some(stage) = next else { return Ok(done) };
            done.push((*stage, count_one(valgrind, &program, &profiles, stage)?));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let counted: Result<Vec<Vec<(&str, f64)>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|worker| match worker.join() {
                Ok(done) => done,
                Err(_) => bail!("a thread that waits for valgrind has panicked"),
            })
            .collect()
    });
    let counted: Vec<(&str, f64)> = counted?.into_iter().flatten().collect();
    step.after(format!(
        "profiles for callgrind_annotate: {}",
        workspace.show(&profiles)
    ));
    stages
        .iter()
        .map(|stage| {
            let found = counted.iter().find(|(name, _)| name == stage);
            let (name, count) = found.context("a stage was not counted")?;
            Ok(((*name).to_owned(), *count))
        })
        .collect()
}

/// Returns the instructions per byte of one stage.
fn count_one(valgrind: &Valgrind, program: &Path, profiles: &Path, stage: &str) -> Result<f64> {
    let profile = profiles.join(format!("{}.callgrind", step::file_name(stage)));
    let mut command = valgrind.command();
    command
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .arg(stage);
    let output = command.output().context("valgrind could not be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("`{}` failed: {said}", process::show(&command));
    }
    let bytes: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .context("the program did not report how many bytes it processed")?;
    let instructions: f64 = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
        .with_context(|| format!("valgrind reported no instructions: {said}"))?;
    if instructions <= 0.0 {
        bail!("valgrind has found no function {COUNTED}");
    }
    Ok(instructions / bytes)
}
