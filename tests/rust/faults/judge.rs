//! Compares the result of a run with the outcome that the table expects.

use std::path::{Path, PathBuf};

use crate::inject::Setup;
use crate::process::Ended;
use crate::scratch;
use crate::scratch::{Cell, Clean, Entry, Snapshot};
use crate::verb_table::{Expected, Kept, Verb};

/// The data about a finished run.
pub struct Run<'r> {
    /// The verb, with the arguments of an undisturbed run.
    pub verb: &'r Verb,
    /// The arguments and options of this run, with the fault.
    pub setup: &'r Setup,
    /// The result of the verb without a fault.
    pub clean: &'r Clean,
    /// The contents of the folder before the run.
    pub before: &'r Snapshot,
    /// The exit status and output.
    pub ended: &'r Ended,
    /// The bytes that the reader of a pipe received.
    pub received: Option<Vec<u8>>,
}

/// Returns a description of the problems; `None` if the result is as expected.
pub fn judge(cell: &Cell, run: &Run, expected: Expected) -> Option<String> {
    let Run { ended, setup, .. } = run;
    let mut problems = Vec::new();
    if ended.hung {
        problems.push("it had to be killed".to_owned());
    }
    if !expected.outcome.status.contains(&ended.status) {
        problems.push(format!("status {}", ended.status));
    }
    problems.extend(message(run, expected));
    problems.extend(files(cell, run, expected.outcome.result));
    let tmp = scratch::snapshot(&cell.tmp());
    if cell.own("missing").exists() {
        problems.push("it made the folder for temporary files".into());
    }
    if !tmp.is_empty() && ended.status != 128 + 9 {
        let names: Vec<_> = tmp.keys().map(|path| path.display().to_string()).collect();
        problems.push(format!("left in TMPDIR: {}", names.join(", ")));
    }
    (!problems.is_empty()).then(|| {
        let typed: Vec<_> = setup.arguments.iter().map(|word| word.display()).collect();
        let typed: Vec<_> = typed.iter().map(ToString::to_string).collect();
        format!(
            "zstn {} → {}: {}\n    said {:?}",
            typed.join(" ").escape_debug(),
            expected.name,
            problems.join("; "),
            ended.stderr
        )
    })
}

/// Returns the problems with the error message.
fn message(run: &Run, expected: Expected) -> Vec<String> {
    let said = &run.ended.stderr;
    let mut problems = Vec::new();
    for words in expected.says {
        let words = words.replace("{input}", &run.setup.input);
        let words = words.replace("{output}", run.setup.output.trim_end_matches('/'));
        if !said.contains(&words) {
            problems.push(format!("it does not say {words:?}"));
        }
    }
    for never in ["panicked", "RUST_BACKTRACE", ".part", "unfinished-"] {
        if said.contains(never) {
            problems.push(format!("it says {never:?}"));
        }
    }
    let is_unsafe = |character| character != '\n' && zstn::display::is_unsafe(character);
    if said.contains(is_unsafe) {
        problems.push("it writes control characters".into());
    }
    // Output to a closed standard error is lost.
    let is_seen = run
        .setup
        .launch
        .shell
        .is_none_or(|shell| !shell.contains("2>"));
    if run.ended.status > 0 && run.ended.status < 128 && is_seen && !said.contains("error: ") {
        problems.push("it gives no reason".into());
    }
    problems
}

/// Returns the problem with the files in the folder.
fn files(cell: &Cell, run: &Run, kept: Kept) -> Option<String> {
    let mut after = scratch::snapshot(&cell.work());
    if run.ended.status == 128 + 9 {
        // A killed process cannot remove its hidden temporary files.
        after.retain(|path, _| !is_hidden(path));
    }
    let mut complete = run.before.clone();
    let to_stream = run.received.is_some() || run.setup.output.starts_with("full");
    if !to_stream {
        complete.extend(made(run));
    }
    let has_result = match kept {
        Kept::Complete => true,
        Kept::Nothing | Kept::Unread => false,
        Kept::Either => match run.verb.output {
            Some(_) => run.ended.status == 0 || after == complete,
            None => run.ended.status == 0,
        },
        Kept::Other => {
            let output = run.verb.output.as_deref().unwrap_or_default();
            if !output.is_empty() && after.remove(Path::new(output)).is_none() {
                return Some("there is no result".into());
            }
            if !output.is_empty() {
                // An output folder may contain the files that were complete.
                after.retain(|path, _| !path.starts_with(output));
            }
            false
        }
    };
    let expected = if has_result { &complete } else { run.before };
    if let Some(difference) = scratch::difference(expected, &after) {
        return Some(difference);
    }
    if !has_result {
        return None;
    }
    let result = match (&run.received, run.verb.output.as_deref()) {
        (Some(received), Some(output)) => (received, run.clean.made.get(Path::new(output))),
        _ if run.setup.launch.stdout.is_some() || run.verb.varies => return None,
        _ if run.setup.launch.shell == Some("exec >&-") => return None,
        // Standard output may contain the name of the input.
        _ if Some(&run.setup.input) != run.verb.input.as_ref() && run.verb.input.is_some() => {
            return None;
        }
        _ => {
            let is_same = run.ended.stdout == run.clean.stdout;
            return (!is_same).then(|| "standard output differs".into());
        }
    };
    match result {
        (received, Some(Entry::File(bytes))) if received == bytes => None,
        (received, _) => Some(format!("the stream got {} bytes", received.len())),
    }
}

/// Returns the files that the verb creates, at the paths where this run must put them.
fn made(run: &Run) -> Snapshot {
    let Some(output) = &run.verb.output else {
        return Snapshot::new();
    };
    let given = PathBuf::from(&run.setup.output);
    let place = run.setup.lands.as_ref().unwrap_or(&given);
    let made = run.clean.made.iter();
    made.map(
        |(path, entry)| match path.strip_prefix(output.trim_end_matches('/')) {
            Ok(below) if below.as_os_str().is_empty() => (place.clone(), entry.clone()),
            Ok(below) => (place.join(below), entry.clone()),
            Err(_) => (path.clone(), entry.clone()),
        },
    )
    .collect()
}

fn is_hidden(path: &Path) -> bool {
    let mut names = path.components().map(|part| part.as_os_str());
    names.any(|name| name.as_encoded_bytes().starts_with(b"."))
}
