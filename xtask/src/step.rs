//! One piece of work with a title, a log, a duration and a result.
//!
//! The terminal gets one line per step. The output of tools goes to a log file
//! and is shown only when the step fails.

use std::fs::{self, File};
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::process;
use crate::workspace::Workspace;

/// Enough to see the first error of most tools.
const LINES_SHOWN_ON_FAILURE: usize = 150;
const TITLE_WIDTH: usize = 44;

/// The list of steps of one command.
pub struct Report {
    logs: PathBuf,
    root: PathBuf,
    live: bool,
    passed: usize,
    failed: usize,
    /// The first failure after which the run went on.
    failure: Option<Error>,
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
            passed: 0,
            failed: 0,
            failure: None,
        })
    }

    /// Runs `work` and prints one line about it, and the log if it failed.
    pub fn step<T>(&mut self, title: &str, work: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        let log = self.logs.join(format!("{}.log", file_name(title)));
        let file =
            File::create(&log).with_context(|| format!("{} is not writable", log.display()))?;
        let mut step = Step {
            title: title.to_owned(),
            log,
            file,
            root: self.root.clone(),
            live: self.live,
            note: String::new(),
            after: Vec::new(),
        };
        step.announce();
        let started = Instant::now();
        let result = work(&mut step);
        step.clear();
        let mark = if result.is_ok() { '✓' } else { '✗' };
        let line = line(mark, title, started.elapsed(), &step.note);
        println!("{line}");
        match &result {
            Ok(_) => {
                self.passed += 1;
                for line in &step.after {
                    println!("    {line}");
                }
            }
            Err(_) => {
                self.failed += 1;
                step.show_log();
            }
        }
        result.with_context(|| format!("\"{title}\" did not succeed"))
    }

    /// Runs a step that no later one depends on: the run goes on if it fails.
    pub fn check(&mut self, title: &str, work: impl FnOnce(&mut Step) -> Result<()>) {
        let result = self.step(title, work);
        self.keep(result);
    }

    /// Keeps the failure of steps that no later one depends on.
    pub fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Returns the first failure that was kept.
    pub fn kept(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Prints the last line, in the form that scripts look for.
    pub fn summary(&self) {
        println!("\n{} passed, {} failed", self.passed, self.failed);
    }
}

/// The step that is running.
pub struct Step {
    title: String,
    log: PathBuf,
    file: File,
    root: PathBuf,
    live: bool,
    note: String,
    after: Vec<String>,
}

impl Step {
    /// Runs `command`, by default from the root of the repository.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let shown = process::show(command);
        if command.get_current_dir().is_none() {
            command.current_dir(&self.root);
        }
        writeln!(self.file, "$ {shown}").context("the log is not writable")?;
        let out = self.file.try_clone().context("the log is not writable")?;
        let err = self.file.try_clone().context("the log is not writable")?;
        let status = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .with_context(|| format!("`{shown}` could not be started"))?;
        if status.success() {
            return Ok(());
        }
        bail!("`{shown}` failed ({status})")
    }

    /// Runs the command that `make` returns, and once more if it failed: for
    /// downloads.
    pub fn run_twice(&mut self, make: impl Fn() -> Command) -> Result<()> {
        if self.run(&mut make()).is_ok() {
            return Ok(());
        }
        self.run(&mut make())
            .map_err(|error| anyhow!("{error}, also when tried again"))
    }

    /// Adds the log of another command to that of this step.
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

    /// Prints a sentence at once, such as what is about to be installed.
    pub fn say(&mut self, sentence: &str) {
        self.clear();
        println!("  {sentence}");
        self.announce();
    }

    /// Adds a line to print below the step if it passes.
    pub fn after(&mut self, line: impl Into<String>) {
        self.after.push(line.into());
    }

    /// Creates a log for a child that outlives this step.
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

    fn announce(&self) {
        if self.live {
            print!("… {}", self.title);
            // A terminal that cannot be flushed shows the line later.
            let _ = stdout().flush();
        }
    }

    fn clear(&self) {
        if self.live {
            print!("\r\x1b[2K");
        }
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
        println!("\n    whole log: {}", relative(&self.log, &self.root));
    }
}

/// Returns whether `line` is one of cargo's progress lines, which bury errors.
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

/// Converts `title` to the name of a file.
pub fn file_name(title: &str) -> String {
    title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
}

fn line(mark: char, title: &str, took: Duration, note: &str) -> String {
    let line = format!(
        "{mark} {title:<TITLE_WIDTH$} {:>6.1} s   {note}",
        took.as_secs_f64()
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned() {
        let short = line('✓', "a", Duration::from_millis(40), "");
        let long = line('✗', "something longer", Duration::from_secs(123), "note");
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
