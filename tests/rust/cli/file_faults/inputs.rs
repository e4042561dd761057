//! Inputs that change after they were opened, with every operation: the result never
//! mixes two versions.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use zstn::{Job, PackOptions, Progress, Reader, Result, UnpackOptions, VerifyOptions};
use zstn_core::Rule;
use zstn_tests::command::{text, zstn};
use zstn_tests::faults;
use zstn_tests::faults::Run;
use zstn_tests::faults::files::{FileFaults, InputFault};
use zstn_tests::tier::chosen;

use super::{Scratch, TENSOR_BYTES, plain};

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
    faults::write_report("native-inputs", &runs);
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

#[test]
fn reading_past_the_end_of_a_file_that_was_cut_is_an_error() {
    use zstn::source::{Local, Source};
    use zstn_tests::faults::files::Act;

    let scratch = Scratch::new();
    let file = Local::open(&scratch.at("m.safetensors")).unwrap();
    let last = file.len_bytes() - 1..file.len_bytes();
    assert!(file.read(last.clone()).is_ok());
    Act::Truncate.apply(&scratch.at("m.safetensors")).unwrap();
    let error = file.read(last).unwrap_err().to_string();
    assert!(error.contains("has changed since it was opened"), "{error}");
}

#[test]
fn a_file_that_was_cut_off_is_packed_only_when_asked_for() {
    let scratch = Scratch::new();
    let original = plain();
    for len in [
        original.len() - 1,
        original.len() / 2,
        original.len() - 2 * TENSOR_BYTES,
    ] {
        fs::write(scratch.at("cut.safetensors"), &original[..len]).unwrap();
        let folder = scratch.folder.path();
        let out = zstn(folder, &["pack", "cut.safetensors", "--json"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        let error: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
        assert_eq!(error["error"]["rule"], Rule::SafetensorsTruncated.code());
        assert!(text(&out.stderr).contains("cut off"));
        assert!(!scratch.at("cut.zstn").exists());
        // The same for a shard in a folder.
        let model = scratch.at("model");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("model.safetensors"), &original[..len]).unwrap();
        let out = zstn(folder, &["pack", "model"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        assert!(!scratch.at("model-zstn").exists());

        let out = zstn(folder, &["pack", "cut.safetensors", "--allow-truncated"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let out = zstn(folder, &["unpack", "cut.zstn", "-o", "back"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(fs::read(scratch.at("back")).unwrap() == original[..len]);
        for name in ["cut.zstn", "back"] {
            fs::remove_file(scratch.at(name)).unwrap();
        }
    }
}
