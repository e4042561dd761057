//! Steps: units of work with a title, a log, a duration and a result.
//!
//! The terminal shows one line per step. The output of tools goes to a log file, which
//! is shown only if the step fails. Steps may run at the same time.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use fs_err::{self as fs, File};
use wait4::Wait4 as _;

use crate::test::{self, Tier};
use crate::{paths, process};

/// Number of lines at the end of a log that are shown if its step fails. With most tools,
/// they contain the first error.
const LINES_SHOWN_ON_FAILURE: usize = 150;
const TITLE_WIDTH: usize = 44;

/// The steps of this process, and their results.
struct Report {
    started: Option<Instant>,
    /// Titles of the running steps.
    running: Vec<String>,
    ended: Vec<Ended>,
    /// The first failure that did not stop the run.
    failure: Option<Error>,
}

static REPORT: Mutex<Report> = Mutex::new(Report {
    started: None,
    running: Vec::new(),
    ended: Vec::new(),
    failure: None,
});

struct Ended {
    title: String,
    passed: bool,
    took: Duration,
    /// Processor time of its commands and their children.
    processor: Duration,
    note: String,
}

impl Ended {
    /// Returns the line of the step, with the processor time in a table.
    fn line(&self, in_table: bool) -> String {
        let mark = if self.passed { '✓' } else { '✗' };
        let (title, took) = (&self.title, self.took.as_secs_f64());
        let processor = match in_table {
            true => format!(" {:>6.1} s", self.processor.as_secs_f64()),
            false => String::new(),
        };
        let note = &self.note;
        let line = format!("{mark} {title:<TITLE_WIDTH$} {took:>6.1} s{processor}   {note}");
        line.trim_end().to_owned()
    }
}

fn report() -> MutexGuard<'static, Report> {
    REPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the titles of running steps from the terminal, lets `change` print lines,
/// and prints the titles again.
fn print(change: impl FnOnce(&mut Report)) {
    let mut report = report();
    let is_live = stdout().is_terminal();
    if is_live {
        print!("\r\x1b[2K");
    }
    change(&mut report);
    if is_live && !report.running.is_empty() {
        print!("… {}", report.running.join(", "));
        // A terminal that cannot be flushed shows the line later.
        let _ = stdout().flush();
    }
}

/// Runs `work` and prints a line about it, followed by the log if it failed.
pub fn step<T>(title: &str, work: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
    let mut step = Step::new(title)?;
    let started = Instant::now();
    print(|report| {
        report.started.get_or_insert(started);
        report.running.push(title.to_owned());
    });
    let result = work(&mut step);
    print(|report| {
        let ended = Ended {
            title: title.to_owned(),
            passed: result.is_ok(),
            took: started.elapsed(),
            processor: step.processor,
            note: std::mem::take(&mut step.note),
        };
        report.running.retain(|running| running != title);
        println!("{}", ended.line(false));
        report.ended.push(ended);
        match &result {
            Ok(_) => step.after.iter().for_each(|line| println!("    {line}")),
            Err(error) => {
                step.show_log();
                println!("    error: {error:#}\n");
            }
        }
    });
    result.with_context(|| format!("\"{title}\" did not succeed"))
}

/// Runs a step that consists of one command.
pub fn run(title: &str, command: &mut Command) -> Result<()> {
    step(title, |step| step.run(command))
}

/// Runs a step that consists of one command, which runs tests.
pub fn tests(title: &str, command: &mut Command) -> Result<()> {
    step(title, |step| step.tests(command))
}

/// Runs a step that no later step depends on. If it fails, the run continues.
pub fn check(title: &str, work: impl FnOnce(&mut Step) -> Result<()>) {
    keep(step(title, work));
}

/// Records the failure of a step that no later step depends on.
pub fn keep(result: Result<()>) {
    if let Err(error) = result {
        report().failure.get_or_insert(error);
    }
}

/// Returns the first recorded failure as an error.
pub fn kept() -> Result<()> {
    report().failure.take().map_or(Ok(()), Err)
}

/// Prints a table of all steps with results, wall time and processor time in seconds.
pub fn table() {
    let report = report();
    println!("\n  {:<TITLE_WIDTH$} {:>8} {:>8}", "step", "wall", "cpu");
    for ended in &report.ended {
        println!("{}", ended.line(true));
    }
    let wall = report
        .started
        .map_or(0.0, |started| started.elapsed().as_secs_f64());
    let processor: Duration = report.ended.iter().map(|ended| ended.processor).sum();
    let processor = processor.as_secs_f64();
    println!("  {:<TITLE_WIDTH$} {wall:>6.1} s {processor:>6.1} s", "all");
}

/// Prints the failed steps and a last line, in a format that scripts parse.
pub fn summary() {
    let report = report();
    let failed: Vec<_> = report.ended.iter().filter(|ended| !ended.passed).collect();
    if !failed.is_empty() {
        println!("\nFailed:");
        failed.iter().for_each(|step| println!("  {}", step.title));
    }
    let passed = report.ended.len() - failed.len();
    println!("\n{passed} passed, {} failed", failed.len());
}

pub struct Step {
    log: PathBuf,
    file: File,
    processor: Duration,
    note: String,
    after: Vec<String>,
}

impl Step {
    fn new(title: &str) -> Result<Self> {
        let (log, file) = log(title)?;
        Ok(Self {
            log,
            file,
            processor: Duration::ZERO,
            note: String::new(),
            after: Vec::new(),
        })
    }

    /// Runs `command`, by default in the root of the repository.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        writeln!(self.file, "$ {}", process::show(command))?;
        Background::to_file(command, self.log.clone(), &self.file)?.wait(self)
    }

    /// Runs a command and counts its tests. No tests at all is an error.
    pub fn tests(&mut self, command: &mut Command) -> Result<()> {
        self.run(command)?;
        let note = test::count(&self.output()?);
        self.note = note.context("no test ran")?;
        Ok(())
    }

    /// Runs a download, and runs it a second time if it fails.
    pub fn run_twice(&mut self, command: &mut Command) -> Result<()> {
        if self.run(command).is_ok() {
            return Ok(());
        }
        self.run(command).context("the second attempt failed, too")
    }

    /// Sets the note at the end of the step's line.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    /// Prints a sentence immediately, such as what will be installed.
    pub fn say(&mut self, sentence: &str) {
        print(|_| println!("  {sentence}"));
    }

    /// Adds a line to print below the step if it passes.
    pub fn after(&mut self, line: impl Into<String>) {
        self.after.push(line.into());
    }

    /// Prints the output of the step's only command below the step if it passes.
    pub fn after_output(&mut self) -> Result<()> {
        // The first line of the log is the command itself.
        let output = self.output()?;
        let lines = output.lines().skip(1).filter(|line| !line.is_empty());
        self.after.extend(lines.map(str::to_owned));
        Ok(())
    }

    pub fn output(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    fn show_log(&self) {
        let Ok(output) = self.output() else { return };
        let lines: Vec<&str> = output.lines().filter(|line| !is_progress(line)).collect();
        if lines.is_empty() {
            return;
        }
        println!();
        for line in &lines[lines.len().saturating_sub(LINES_SHOWN_ON_FAILURE)..] {
            println!("    {line}");
        }
        println!("\n    whole log: {}", paths::show(&self.log));
    }
}

/// Returns whether `line` reports progress of cargo or a passed test, which would hide
/// errors.
fn is_progress(line: &str) -> bool {
    let line = line.trim_start();
    let mut verbs = "Compiling Checking Downloading Downloaded Updating".split(' ');
    let passed =
        line.starts_with("test ") && (line.ends_with("... ok") || line.contains("... ignored"));
    passed || line.starts_with("test result: ok") || verbs.any(|verb| line.starts_with(verb))
}

/// A command that runs in the background of other steps, and is stopped when this value
/// is dropped.
pub struct Background {
    /// The process of the command; `None` after it has ended.
    child: Option<Child>,
    shown: String,
    log: PathBuf,
}

impl Background {
    /// Starts `command`, by default in the root of the repository, with its own log.
    pub fn start(title: &str, command: &mut Command) -> Result<Self> {
        let (log, file) = log(title)?;
        Self::to_file(command, log, &file)
    }

    fn to_file(command: &mut Command, log: PathBuf, file: &File) -> Result<Self> {
        let shown = process::show(command);
        if command.get_current_dir().is_none() {
            command.current_dir(paths::root());
        }
        set_environment(command);
        let (out, err) = (file.try_clone()?, file.try_clone()?);
        command.stdin(Stdio::null()).stdout(out.into_parts().0);
        let child = command.stderr(err.into_parts().0).spawn();
        let child = Some(child.with_context(|| format!("`{shown}` could not be started"))?);
        Ok(Self { child, shown, log })
    }

    /// Waits until the command ends, and adds its processor time to `step`.
    pub fn wait(&mut self, step: &mut Step) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let used = child.wait4();
        let used = used.with_context(|| format!("`{}` was lost", self.shown))?;
        step.processor += used.rusage.utime + used.rusage.stime;
        match used.status.success() {
            true => Ok(()),
            false => bail!("`{}` failed ({})", self.shown, used.status),
        }
    }

    /// Waits like [`wait`](Self::wait), and copies the output to the log of `step`.
    pub fn finish(mut self, step: &mut Step) -> Result<()> {
        let result = self.wait(step);
        step.file.write_all(self.output().as_bytes())?;
        result
    }

    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_none()))
    }

    pub fn output(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both calls fail only if the command has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives tests the paths of the programs of the dev build, and selects their tables
/// (`tests/rust/support/tier.rs`, `tests/js/support/tier.mjs`).
fn set_environment(command: &mut Command) {
    for (name, value) in [
        ("ZSTN_TESTS", Tier::of_process().tests().into()),
        ("ZSTN_BIN", paths::program("debug/zstn")),
        ("ZSTN_FAULT_SERVER", paths::program("debug/fault-server")),
        ("ZSTN_STUB_HUB", paths::program("debug/stub-hub")),
        // Prevents __pycache__ folders in the source tree.
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ] {
        if !command.get_envs().any(|(set, _)| set == name) {
            command.env(name, value);
        }
    }
}

/// Creates a log, named after the title of its step.
fn log(title: &str) -> Result<(PathBuf, File)> {
    let folder = paths::target("xtask-logs");
    fs::create_dir_all(&folder)?;
    let log = folder.join(format!("{}.log", file_name(title)));
    Ok((log.clone(), File::create(log)?))
}

/// Converts `title` to a file name.
pub fn file_name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

/// A value that several suites share. It is created by the first caller, and callers on
/// other threads wait until it has been created. It is `Some(None)` if that failed.
pub struct Shared<T>(Mutex<Option<Option<T>>>);

impl<T: Clone> Shared<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the value, which a step creates the first time.
    pub fn step(&self, title: &str, work: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        self.get(|| step(title, work))
    }

    /// Returns the value, and calls `make` once to create it. Only the first caller
    /// gets the error of `make`, so that it is reported once.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*shared {
            let value = value.clone();
            return value.context("left out: an earlier step that it needs has failed");
        }
        // This remains if `make` fails or panics.
        *shared = Some(None);
        let value = make()?;
        *shared = Some(Some(value.clone()));
        Ok(value)
    }
}
