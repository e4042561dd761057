//! Existing files are never replaced without `--force`.

#[cfg(unix)]
mod unix;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use zstn::convert::Target;
use zstn::{ConvertOptions, Engine, Job, PackOptions, UnpackOptions};
use zstn_tests::checkpoint;
use zstn_tests::command::{program, text, zstn};
use zstn_tests::rng::Rng;

/// Creates `m.safetensors`, a fine-tune of it, the packed files of both, and a frame.
fn models(folder: &Path) {
    let weights = Rng(5).bf16_weights(20_000);
    let mut tuned = weights.clone();
    tuned[7] ^= 1;
    for (name, bytes) in [("m", weights), ("tuned", tuned)] {
        let file = checkpoint(&[("w", "BF16", &bytes)]);
        fs::write(folder.join(format!("{name}.safetensors")), file).unwrap();
    }
    for arguments in [
        &["pack", "m.safetensors"][..],
        &["pack", "tuned.safetensors", "--base", "m.safetensors"],
        &["compress", "m.safetensors"],
    ] {
        let out = zstn(folder, arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
}

pub(super) fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    models(folder.path());
    folder
}

/// Every command that writes a file, without the final argument, which is the output.
pub(super) const WRITING: [&[&str]; 8] = [
    &["pack", "m.safetensors", "-o"],
    &["pack", "tuned.safetensors", "--base", "m.safetensors", "-o"],
    &["unpack", "m.zstn", "-o"],
    &["unpack", "tuned.z4dm", "--base", "m.safetensors", "-o"],
    &["convert", "m.zstn"],
    &["get", "m.zstn", "w", "-o"],
    &["compress", "m.safetensors", "-o"],
    &["decompress", "m.safetensors.z4ai", "-o"],
];

/// Returns the files that a command reads.
fn inputs<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let is_file = |word: &&&str| word.contains('.');
    arguments.iter().filter(is_file).copied().collect()
}

fn run(folder: &Path, arguments: &[&str], output: &OsStr, force: bool) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).arg(output).current_dir(folder);
    if force {
        command.arg("--force");
    }
    command.stdin(Stdio::null()).output().expect("zstn runs")
}

/// Creates a symbolic link to `input`, and returns the name of the link.
#[cfg(unix)]
fn soft_link(folder: &Path, input: &str) -> Option<String> {
    let extension = Path::new(input).extension().unwrap().to_str().unwrap();
    let soft = format!("soft.{extension}");
    let _ = fs::remove_file(folder.join(&soft));
    std::os::unix::fs::symlink(input, folder.join(&soft)).unwrap();
    Some(soft)
}

/// Does nothing, because creating a link on Windows requires a privilege.
#[cfg(not(unix))]
fn soft_link(_: &Path, _: &str) -> Option<String> {
    None
}

pub(super) fn contents(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn an_input_is_never_replaced_not_even_with_force() {
    let folder = scratch();
    let folder = folder.path();
    for arguments in WRITING {
        for input in inputs(arguments) {
            // Another spelling of the path, a hard link and a symbolic link.
            fs::create_dir_all(folder.join("sub")).unwrap();
            let extension = Path::new(input).extension().unwrap().to_str().unwrap();
            let hard = format!("hard.{extension}");
            let _ = fs::remove_file(folder.join(&hard));
            fs::hard_link(folder.join(input), folder.join(&hard)).unwrap();
            let mut names = vec![input.to_owned(), format!("sub/../{input}"), hard];
            names.extend(soft_link(folder, input));
            let before = contents(folder);
            for name in names {
                let out = run(folder, arguments, name.as_ref(), true);
                let what = format!("{arguments:?} {name}: {}", text(&out.stderr));
                // `convert` and `get` may refuse the output for its unknown extension
                // instead.
                assert_eq!(out.status.code(), Some(2), "{what}");
                if arguments[0] != "convert" && arguments[0] != "get" {
                    assert!(text(&out.stderr).contains("is being read"), "{what}");
                }
                assert!(contents(folder) == before, "{what}");
            }
        }
    }
}

#[test]
fn the_library_refuses_to_replace_an_input_as_well() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let job = Job::new().engine(&Engine::new(2).unwrap());
    let before = contents(folder.path());
    let pack = |input: &str, output: &str, options: &PackOptions| {
        zstn::pack(&job, at(input), at(output), options).map(drop)
    };
    let unpack = |input: &str, output: &str, options: &UnpackOptions| {
        zstn::unpack(&job, at(input), at(output), options).map(drop)
    };
    let convert = |input: &str, output: &str, target: &Target, options: &ConvertOptions| {
        zstn::convert(&job, at(input), at(output), target, options).map(drop)
    };
    let plain = || at("m.safetensors");
    let effort = zstn::Effort::Fast;
    let errors = [
        pack("m.safetensors", "m.safetensors", &PackOptions::default()),
        unpack("m.zstn", "m.zstn", &UnpackOptions::default()),
        pack(
            "tuned.safetensors",
            "m.safetensors",
            &PackOptions::default().base(plain()),
        ),
        unpack(
            "tuned.z4dm",
            "m.safetensors",
            &UnpackOptions::default().base(plain()),
        ),
        convert(
            "m.zstn",
            "m.zstn",
            &Target::Zstn { effort },
            &ConvertOptions::default(),
        ),
        convert(
            "tuned.z4dm",
            "m.safetensors",
            &Target::Safetensors,
            &ConvertOptions::default().base(plain()),
        ),
    ];
    for (number, result) in errors.into_iter().enumerate() {
        let error = result.expect_err(&number.to_string()).to_string();
        assert!(error.contains("is being read"), "{number}: {error}");
    }
    assert!(contents(folder.path()) == before);
}

#[test]
fn what_goes_to_the_null_device_is_gone() {
    let folder = scratch();
    let null = if cfg!(windows) { "nul" } else { "/dev/null" };
    let before = contents(folder.path());
    for arguments in WRITING {
        // `convert` and `get` choose the format by the file extension.
        if !["convert", "get"].contains(&arguments[0]) {
            let out = run(folder.path(), arguments, null.as_ref(), false);
            assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        }
    }
    assert!(contents(folder.path()) == before);
}

#[test]
fn a_file_that_exists_is_replaced_with_force_by_every_verb() {
    let folder = scratch();
    let folder = folder.path();
    for arguments in WRITING {
        // `convert` chooses the format by the file extension.
        let name = match arguments[0] {
            "convert" => "out.zt",
            "get" => "out.bin",
            _ => "out",
        };
        let path = folder.join(name);
        fs::write(&path, b"mine").unwrap();
        let out = run(folder, arguments, name.as_ref(), true);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        assert_ne!(fs::read(&path).unwrap(), b"mine", "{arguments:?}");
        fs::remove_file(&path).unwrap();
    }
    // Shards and their index are written together or not at all.
    fs::write(folder.join("s.safetensors.index.json"), b"mine").unwrap();
    let index: &OsStr = "s.safetensors.index.json".as_ref();
    let out = run(folder, &["convert", "m.zstn"], index, false);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(!folder.join("s-00001-of-00001.safetensors").exists());
    let out = run(folder, &["convert", "m.zstn"], index, true);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(folder.join("s-00001-of-00001.safetensors").exists());
}
