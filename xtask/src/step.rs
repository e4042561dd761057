//! A step: a unit of work with a title, a log, a duration and a result.
//!
//! The terminal shows one line per step. The output of tools goes to a log file, which
//! is shown only if the step fails. Steps may run at the same time.

use std::fs::{self, File};
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::process;
use crate::workspace::Workspace;

/// Number of log lines that contain the first error of most tools.
const LINES_SHOWN_ON_FAILURE: usize = 150;
const TITLE_WIDTH: usize = 44;

/// The steps of a command, and their results.
pub struct Report {
    logs: PathBuf,
    root: PathBuf,
    live: bool,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Titles of the running steps.
    running: Vec<String>,
    ended: Vec<Ended>,
    /// The first failure that did not stop the run.
    failure: Option<Error>,
}

/// A completed step.
struct Ended {
    title: String,
    passed: bool,
    took: Duration,
    /// Processor time of its commands and their children, if the system reports it.
    processor: Duration,
    note: String,
}

impl Report {
    pub fn new(workspace: &Workspace) -> Result<Self> {
        let logs = workspace.target("xtask-logs");
        fs::create_dir_all(&logs)
            .with_context(|| format!("{} cannot be created", logs.display()))?;
        Ok(Self {
            logs,
            root: workspace.root().to_path_buf(),
            live: stdout().is_terminal(),
            started: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// Runs `work` and prints a line about it, followed by the log if it failed.
    pub fn step<T>(&self, title: &str, work: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        let log = self.logs.join(format!("{}.log", file_name(title)));
        let file =
            File::create(&log).with_context(|| format!("{} is not writable", log.display()))?;
        let mut step = Step {
            report: self,
            log,
            file,
            processor: Duration::ZERO,
            note: String::new(),
            after: Vec::new(),
        };
        self.print(|state| state.running.push(title.to_owned()));
        let started = Instant::now();
        let result = work(&mut step);
        let ended = Ended {
            title: title.to_owned(),
            passed: result.is_ok(),
            took: started.elapsed(),
            processor: step.processor,
            note: step.note.clone(),
        };
        self.print(|state| {
            state.running.retain(|running| running != title);
            println!("{}", ended.line());
            match ended.passed {
                true => step.after.iter().for_each(|line| println!("    {line}")),
                false => step.show_log(),
            }
            if let Err(error) = &result {
                println!("    error: {error:#}\n");
            }
            state.ended.push(ended);
        });
        result.with_context(|| format!("\"{title}\" did not succeed"))
    }

    /// Runs a step that no later step depends on. If it fails, the run continues.
    pub fn check(&self, title: &str, work: impl FnOnce(&mut Step) -> Result<()>) {
        let result = self.step(title, work);
        self.keep(result);
    }

    /// Records the failure of a step that no later step depends on.
    pub fn keep(&self, result: Result<()>) {
        if let Err(error) = result {
            self.state().failure.get_or_insert(error);
        }
    }

    /// Returns the first recorded failure as an error.
    pub fn kept(&self) -> Result<()> {
        self.state().failure.take().map_or(Ok(()), Err)
    }

    /// Prints a table of all steps with results, wall time and processor time in
    /// seconds.
    pub fn table(&self) {
        let state = self.state();
        println!("\n  {:<TITLE_WIDTH$} {:>8} {:>8}", "step", "wall", "cpu");
        for ended in &state.ended {
            println!("{}", ended.row());
        }
        let processor: Duration = state.ended.iter().map(|ended| ended.processor).sum();
        let total = [self.started.elapsed(), processor].map(|time| time.as_secs_f64());
        println!(
            "  {:<TITLE_WIDTH$} {:>6.1} s {:>6.1} s",
            "all", total[0], total[1]
        );
    }

    /// Prints the failed steps and a last line, in a format that scripts parse.
    pub fn summary(&self) {
        let state = self.state();
        let failed: Vec<_> = state.ended.iter().filter(|ended| !ended.passed).collect();
        if !failed.is_empty() {
            println!("\nFailed:");
            failed
                .iter()
                .for_each(|ended| println!("  {}", ended.title));
        }
        let passed = state.ended.len() - failed.len();
        println!("\n{passed} passed, {} failed", failed.len());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the names of running steps from the terminal, lets `change` print lines,
    /// and prints the names again.
    fn print(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        if self.live {
            print!("\r\x1b[2K");
        }
        change(&mut state);
        if self.live && !state.running.is_empty() {
            print!("… {}", state.running.join(", "));
            // A terminal that cannot be flushed shows the line later.
            let _ = stdout().flush();
        }
    }
}

impl Ended {
    fn mark(&self) -> char {
        if self.passed { '✓' } else { '✗' }
    }

    fn line(&self) -> String {
        let line = format!(
            "{} {:<TITLE_WIDTH$} {:>6.1} s   {}",
            self.mark(),
            self.title,
            self.took.as_secs_f64(),
            self.note
        );
        line.trim_end().to_owned()
    }

    fn row(&self) -> String {
        format!(
            "{} {:<TITLE_WIDTH$} {:>6.1} s {:>6.1} s   {}",
            self.mark(),
            self.title,
            self.took.as_secs_f64(),
            self.processor.as_secs_f64(),
            self.note
        )
        .trim_end()
        .to_owned()
    }
}

/// A running step.
pub struct Step<'a> {
    report: &'a Report,
    log: PathBuf,
    file: File,
    processor: Duration,
    note: String,
    after: Vec<String>,
}

impl Step<'_> {
    /// Runs `command`, by default in the root of the repository.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let shown = process::show(command);
        if command.get_current_dir().is_none() {
            command.current_dir(&self.report.root);
        }
        writeln!(self.file, "$ {shown}").context("the log is not writable")?;
        let out = self.file.try_clone().context("the log is not writable")?;
        let err = self.file.try_clone().context("the log is not writable")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .with_context(|| format!("`{shown}` could not be started"))?;
        self.processor += process::processor_time(&child);
        let status = child
            .wait()
            .with_context(|| format!("`{shown}` was lost"))?;
        if status.success() {
            return Ok(());
        }
        bail!("`{shown}` failed ({status})")
    }

    /// Runs the command that `make` returns, and runs it a second time if it fails.
    /// Meant for downloads.
    pub fn run_twice(&mut self, make: impl Fn() -> Command) -> Result<()> {
        if self.run(&mut make()).is_ok() {
            return Ok(());
        }
        self.run(&mut make())
            .map_err(|error| anyhow!("{error}, also when tried again"))
    }

    /// Adds the processor time of a command that was not run by this step.
    pub fn spent(&mut self, processor: Duration) {
        self.processor += processor;
    }

    /// Appends the log of another command to this step's log.
    pub fn append(&mut self, log: &Path) -> Result<()> {
        let output = fs::read(log).with_context(|| format!("{} cannot be read", log.display()))?;
        self.file
            .write_all(&output)
            .context("the log is not writable")
    }

    /// Sets the note at the end of the step's line.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    /// Prints a sentence immediately, such as what will be installed.
    pub fn say(&mut self, sentence: &str) {
        self.report.print(|_| println!("  {sentence}"));
    }

    /// Adds a line to print below the step if it passes.
    pub fn after(&mut self, line: impl Into<String>) {
        self.after.push(line.into());
    }

    /// Creates a log for a child process that outlives this step.
    pub fn sibling_log(&self, name: &str) -> Result<(File, PathBuf)> {
        let path = self.log.with_file_name(format!("{name}.log"));
        let file =
            File::create(&path).with_context(|| format!("{} is not writable", path.display()))?;
        Ok((file, path))
    }

    /// Returns the output of this step so far.
    pub fn output(&self) -> Result<String> {
        let bytes = fs::read(&self.log)
            .with_context(|| format!("{} cannot be read", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn show_log(&self) {
        let Ok(output) = self.output() else { return };
        let lines: Vec<&str> = output.lines().filter(|line| !is_progress(line)).collect();
        if lines.is_empty() {
            return;
        }
        let start = lines.len().saturating_sub(LINES_SHOWN_ON_FAILURE);
        println!();
        for line in &lines[start..] {
            println!("    {line}");
        }
        println!(
            "\n    whole log: {}",
            relative(&self.log, &self.report.root)
        );
    }
}

/// Returns whether `line` is one of cargo's progress lines, which would hide errors.
fn is_progress(line: &str) -> bool {
    const VERBS: [&str; 5] = [
        "Compiling ",
        "Checking ",
        "Downloading ",
        "Downloaded ",
        "Updating ",
    ];
    VERBS.iter().any(|verb| line.trim_start().starts_with(verb))
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// Converts `title` to a file name.
pub fn file_name(title: &str) -> String {
    title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned() {
        let ended = |passed, title: &str, took, note: &str| Ended {
            title: title.into(),
            passed,
            took: Duration::from_millis(took),
            processor: Duration::ZERO,
            note: note.into(),
        };
        let short = ended(true, "a", 40, "").line();
        let long = ended(false, "something longer", 123_000, "note").line();
        let column = |text: &str| text.chars().position(|c| c == '.');
        assert_eq!(column(&short), column(&long));
        assert!(short.ends_with("0.0 s"));
        assert!(long.ends_with("123.0 s   note"));
    }

    #[test]
    fn logs_are_named_after_titles() {
        assert_eq!(
            file_name("clippy, core without std"),
            "clippy-core-without-std"
        );
    }
}
