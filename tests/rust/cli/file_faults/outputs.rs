//! Outputs that cannot be written, with every command that writes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use zstn_tests::command::{program, text};
use zstn_tests::faults;
use zstn_tests::faults::Run;
use zstn_tests::faults::files::{FileFaults, OutputFault};

use crate::overwriting::{WRITING, contents, scratch};

#[test]
fn an_output_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let table = FileFaults::load();
    let mut runs = Vec::new();
    for arguments in WRITING {
        let verb = match arguments.contains(&"--base") {
            true => format!("zstn {} --base", arguments[0]),
            false => format!("zstn {}", arguments[0]),
        };
        for fault in &table.outputs {
            let problem = judge(arguments, fault).err();
            runs.push(Run {
                case: fault.name.clone(),
                surface: verb.clone(),
                problem: problem.map(|problem| format!("{verb}, {}: {problem}", fault.name)),
            });
        }
    }
    faults::write_report("native-outputs", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn judge(arguments: &[&str], fault: &OutputFault) -> Result<(), String> {
    let folder = scratch();
    let folder = folder.path();
    // `convert` chooses the format by the file extension.
    let extension = match arguments[0] {
        "convert" => ".zt",
        _ => "",
    };
    let output = format!("{}{extension}", fault.output);
    for name in &fault.files {
        // The extension is only added to the output, not to the other listed files.
        let is_output = *name == fault.output;
        let name = format!("{name}{}", if is_output { extension } else { "" });
        fs::write(folder.join(name), b"mine").unwrap();
    }
    let before = contents(folder);
    let is_taken = fault.files.contains(&fault.output);
    let out = run(folder, arguments, &output, fault.limit_blocks);
    let said = text(&out.stderr);
    let is_helpful = said.contains(&fault.says) && (!is_taken || said.contains("--force"));
    if out.status.code() != Some(fault.status) || !is_helpful {
        return Err(format!("status {:?}: {said}", out.status.code()));
    }
    match contents(folder) == before {
        true => Ok(()),
        false => Err("something was left in the folder".into()),
    }
}

fn run(folder: &Path, arguments: &[&str], output: &str, limit_blocks: Option<u32>) -> Output {
    let limit = limit_blocks.map_or("unlimited".to_owned(), |blocks| blocks.to_string());
    Command::new("bash")
        .args(["-c", "ulimit -f \"$0\"; exec \"$@\"", &limit])
        .arg(program())
        .args(arguments)
        .arg(output)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("bash runs")
}
