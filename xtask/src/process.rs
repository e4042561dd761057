//! Finds programs and runs short queries.
//!
//! Long-running commands, whose output matters if they fail, run through
//! [`crate::steps::Step`] instead.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

/// Returns a command from a line of words, the first of which is the program.
pub fn cmd(line: &str) -> Command {
    let (program, words) = line.split_once(' ').unwrap_or((line, ""));
    let mut command = Command::new(program);
    command.words(words);
    command
}

pub trait Words {
    /// Adds the words of a line as arguments.
    fn words(&mut self, line: &str) -> &mut Self;
}

impl Words for Command {
    fn words(&mut self, line: &str) -> &mut Self {
        self.args(line.split_whitespace())
    }
}

/// Returns the first file named `name` in `PATH`. An absolute path is returned if the
/// file exists.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    let mut candidates = env::split_paths(&path).map(|folder| folder.join(&file));
    candidates.find(|candidate| candidate.is_file())
}

/// Runs `command` and returns its trimmed standard output.
pub fn ask(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("`{shown}` could not be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command whose output is the result, so that it goes to the terminal instead
/// of a log.
pub fn print(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status();
    let status = status.with_context(|| format!("`{shown}` could not be started"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("`{shown}` failed ({status})"),
    }
}

/// Calls `work` with all items on `at_a_time` threads, and returns the results in any
/// order.
pub fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    at_a_time: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (queue, results) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let result = work(item);
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a command as a user would type it.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words = words.map(OsStr::to_string_lossy).map(|word| {
        match word.is_empty() || word.contains(char::is_whitespace) {
            true => format!("'{word}'"),
            false => word.into_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Parses a version number such as `v20.19.1`, `Python 3.11.7` or `rustc 1.96.0
/// (hash)`: the first sequence of digits and dots. Missing components are 0.
pub fn version(text: &str) -> Option<(u32, u32, u32)> {
    let rest = &text[text.find(|c: char| c.is_ascii_digit())?..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    let mut parts = rest[..end.unwrap_or(rest.len())].split('.');
    let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((next(), next(), next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_tools_print_them_and_compare_by_number() {
        assert_eq!(version("v20.19.1\n"), Some((20, 19, 1)));
        assert_eq!(version("Python 3.13.0rc1"), Some((3, 13, 0)));
        assert_eq!(version("rustc 1.96.0 (abc 2026-05-01)"), Some((1, 96, 0)));
        assert_eq!(version("1.88"), Some((1, 88, 0)));
        assert_eq!(version("none"), None);
        assert!(version("v20.9.0") < version("v20.19.0"));
    }
}
