//! Runs every operation on inputs that change after they were opened.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use zstn::{Job, PackOptions, Progress, Reader, Result, UnpackOptions, VerifyOptions};
use zstn_tests::faults::files::{FileFaults, InputFault};
use zstn_tests::faults::report::{self, Run};
use zstn_tests::tier::chosen;

use super::scratch::Scratch;

/// Calls a function when work on a file has begun.
pub(super) struct WhenBegun<'a>(pub(super) Change<'a>);

pub(super) type Change<'a> = &'a (dyn Fn() + Sync);

impl Progress for WhenBegun<'_> {
    fn begin(&self, _: u64) {
        self.0();
    }

    fn advance(&self, _: u64) {}
}

/// An operation that reads a file. Adding an operation here runs all faults with it.
struct Surface {
    name: &'static str,
    /// Name of the file that changes.
    file: &'static str,
    /// Opens the file, calls the function, reads, and returns the result.
    run: fn(&Scratch, Change<'_>) -> Result<Vec<u8>>,
}

const fn surface(
    name: &'static str,
    file: &'static str,
    run: fn(&Scratch, Change<'_>) -> Result<Vec<u8>>,
) -> Surface {
    Surface { name, file, run }
}

const SURFACES: [Surface; 9] = [
    surface("pack", "m.safetensors", |scratch, change| {
        pack(scratch, "m.safetensors", PackOptions::default(), change)
    }),
    surface("pack --base", "tuned.safetensors", pack_delta),
    surface("pack --base, the base", "m.safetensors", pack_delta),
    surface("unpack", "m.zstn", |scratch, change| {
        unpack(scratch, "m.zstn", UnpackOptions::default(), change)
    }),
    surface("unpack --base", "tuned.z4dm", unpack_delta),
    surface("unpack --base, the base", "m.safetensors", unpack_delta),
    surface("verify", "m.zstn", |scratch, change| {
        let progress = WhenBegun(change);
        let job = Job::new().engine(&scratch.engine).progress(&progress);
        zstn::verify(&job, scratch.at("m.zstn"), &VerifyOptions::default())?;
        Ok(Vec::new())
    }),
    surface("read, plain", "m.safetensors", |scratch, change| {
        read(scratch, "m.safetensors", change)
    }),
    surface("read, packed", "m.zstn", |scratch, change| {
        read(scratch, "m.zstn", change)
    }),
];

fn pack(
    scratch: &Scratch,
    input: &str,
    options: PackOptions,
    change: Change<'_>,
) -> Result<Vec<u8>> {
    let progress = WhenBegun(change);
    let job = Job::new().engine(&scratch.engine).progress(&progress);
    let output = scratch.at("out");
    zstn::pack(&job, scratch.at(input), &output, &options)?;
    Ok(fs::read(output).unwrap())
}

fn pack_delta(scratch: &Scratch, change: Change<'_>) -> Result<Vec<u8>> {
    let options = PackOptions::default().base(scratch.at("m.safetensors"));
    pack(scratch, "tuned.safetensors", options, change)
}

fn unpack(
    scratch: &Scratch,
    input: &str,
    options: UnpackOptions,
    change: Change<'_>,
) -> Result<Vec<u8>> {
    let progress = WhenBegun(change);
    let job = Job::new().engine(&scratch.engine).progress(&progress);
    let output = scratch.at("out");
    zstn::unpack(&job, scratch.at(input), &output, &options)?;
    Ok(fs::read(output).unwrap())
}

fn unpack_delta(scratch: &Scratch, change: Change<'_>) -> Result<Vec<u8>> {
    let options = UnpackOptions::default().base(scratch.at("m.safetensors"));
    unpack(scratch, "tuned.z4dm", options, change)
}

fn read(scratch: &Scratch, file: &str, change: Change<'_>) -> Result<Vec<u8>> {
    let reader = Reader::open(scratch.at(file).to_str().unwrap())?;
    let before = reader.read("a")?.bytes;
    change();
    let rows = reader.read_rows("b", 3..5);
    let after = reader.read("a");
    assert_eq!(rows.is_ok(), after.is_ok(), "rows and tensors");
    assert!(after.as_ref().is_ok_and(|after| after.bytes == before) || after.is_err());
    Ok(after?.bytes)
}

#[test]
fn a_file_that_changes_while_it_is_read_gives_no_result() {
    let table = FileFaults::load();
    let mut runs = Vec::new();
    let mut truths = BTreeMap::new();
    let all = SURFACES.iter().flat_map(|surface| {
        let faults = table.inputs.iter();
        faults.map(move |fault| (surface, fault))
    });
    let all = chosen(all.collect(), |(surface, fault)| {
        vec![surface.name.to_owned(), fault.name.clone()]
    });
    for (surface, fault) in all {
        let truth = truths
            .entry(surface.name)
            .or_insert_with(|| (surface.run)(&Scratch::new(), &|| ()).unwrap());
        let problem = judge(surface, fault, truth).err();
        runs.push(Run {
            case: fault.name.clone(),
            surface: format!("native {}", surface.name),
            problem: problem.map(|problem| format!("{}, {}: {problem}", surface.name, fault.name)),
        });
    }
    report::write("native-inputs", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn judge(surface: &Surface, fault: &InputFault, truth: &[u8]) -> std::result::Result<(), String> {
    let scratch = Scratch::new();
    let path = scratch.at(surface.file);
    let is_refused = AtomicBool::new(false);
    let found = (surface.run)(&scratch, &|| match fault.act.apply(&path) {
        Ok(()) => {}
        // Windows protects open or mapped files from some changes.
        Err(_) if cfg!(windows) => is_refused.store(true, Ordering::Relaxed),
        Err(error) => panic!("{error}"),
    });
    let is_unchanged = is_refused.into_inner();
    match found {
        Ok(bytes) if is_unchanged || fault.native == "right" => match bytes == truth {
            true => Ok(()),
            false => Err("wrong bytes".into()),
        },
        Ok(_) => Err(format!("a result, not {}", fault.native)),
        Err(error) => {
            let names_it = error.to_string().contains(&path.display().to_string());
            let leaves_nothing = !scratch.at("out").exists();
            if error.code() == fault.native && names_it && leaves_nothing {
                return Ok(());
            }
            Err(format!("{}: {error}", error.code()))
        }
    }
}
