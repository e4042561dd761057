//! Output folders that change during a write.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use zstn::convert::Target;
use zstn::{ConvertOptions, Job, PackOptions, Sink, UnpackOptions};
use zstn_tests::faults::files::{FileFaults, FolderFault};
use zstn_tests::faults::report::{self, Run};

use super::inputs::{Change, WhenBegun};
use super::scratch::Scratch;

/// An operation that writes a file and calls the function when work has begun. Adding
/// an operation here runs all faults with it.
type Write = fn(&Scratch, Sink<'_>, Change<'_>) -> zstn::Result<()>;

const SURFACES: [(&str, Write); 3] = [
    ("pack", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let input = scratch.at("m.safetensors");
        zstn::pack(&job, input, output, &PackOptions::default()).map(drop)
    }),
    ("unpack", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let input = scratch.at("m.zstn");
        zstn::unpack(&job, input, output, &UnpackOptions::default()).map(drop)
    }),
    ("convert", |scratch, output, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        let options = ConvertOptions::default();
        let input = scratch.at("m.zstn");
        zstn::convert(&job, input, output, &Target::Safetensors, &options).map(drop)
    }),
];

#[test]
fn a_folder_that_changes_meanwhile_loses_nothing_of_others() {
    let mut runs = Vec::new();
    for (name, write) in SURFACES {
        for fault in &FileFaults::load().meanwhile {
            let problem = judge(write, fault).err();
            runs.push(Run {
                case: fault.name.clone(),
                surface: format!("native {name}"),
                problem: problem.map(|problem| format!("{name}, {}: {problem}", fault.name)),
            });
        }
    }
    report::write("native-meanwhile", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn judge(write: Write, fault: &FolderFault) -> Result<(), String> {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("folder")).unwrap();
    let output = scratch.at("folder/out");
    let sink = Sink::path(&output).overwrite(false);
    let is_refused = AtomicBool::new(false);
    let found = write(&scratch, sink, &|| match fault.act.apply(&output) {
        Ok(()) => {}
        // Windows does not remove a folder that contains an open file.
        Err(_) if cfg!(windows) => is_refused.store(true, Ordering::Relaxed),
        Err(error) => panic!("{error}"),
    });
    let code = found.as_ref().map_or_else(zstn::Error::code, |()| "right");
    let may_succeed = is_refused.into_inner() && code == "right";
    if code != fault.native && !may_succeed {
        return Err(format!("{code}, not {}: {found:?}", fault.native));
    }
    let is_mine = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == b"mine");
    let names = fs::read_dir(scratch.at("folder")).into_iter().flatten();
    for path in names.map(|entry| entry.unwrap().path()) {
        let is_result = path == output && code == "right";
        if is_mine(&path) == is_result {
            return Err(format!("{} is not as it should be", path.display()));
        }
    }
    Ok(())
}
