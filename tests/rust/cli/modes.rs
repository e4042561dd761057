//! An output has the permissions of its input, and replacing a file never widens its
//! permissions.

#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use zstn_tests::command::{program, text};

use super::network::files;

/// Runs `zstn` with a umask.
fn run(folder: &Path, umask: &str, arguments: &[&str]) {
    let script = format!("umask {umask} && exec \"$0\" \"$@\"");
    let out = Command::new("sh")
        .args(["-c", &script])
        .arg(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
}

fn set(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(&path).map_or(0, |file| file.permissions().mode() & 0o7777)
}

/// The commands that create one file from another, with the input as the last argument.
const VERBS: [(&[&str], &str); 9] = [
    (&["pack", "-o", "out"], "m.safetensors"),
    (
        &["pack", "--base", "base.safetensors", "-o", "out"],
        "m.safetensors",
    ),
    (&["unpack", "-o", "out"], "m.zstn"),
    (&["convert", "--to", "zt", "-o", "out"], "m.zstn"),
    (&["convert", "--to", "safetensors", "-o", "out"], "m.zstn"),
    (&["compress", "-o", "out"], "m.safetensors"),
    (&["decompress", "-o", "out"], "m.z4ai"),
    (&["sketch", "-o", "out"], "m.safetensors"),
    (&["get", "-o", "out"], "m.zstn"),
];

#[test]
fn results_have_the_permissions_of_their_input() {
    let folder = files();
    let at = |name: &str| folder.path().join(name);
    fs::copy(at("m.safetensors"), at("base.safetensors")).unwrap();
    for (options, input) in VERBS {
        let tensor: &[&str] = if options[0] == "get" { &["w"] } else { &[] };
        let arguments = [options, &["--force", input], tensor].concat();
        for (umask, bits) in [
            ("022", 0o600),
            ("077", 0o644),
            ("022", 0o755),
            ("022", 0o440),
        ] {
            set(at(input), bits);
            let _ = fs::remove_file(at("out"));
            run(folder.path(), umask, &arguments);
            assert_eq!(mode(at("out")), bits, "{arguments:?}, umask {umask}");
        }
        set(at(input), 0o644);
        // A private file stays private when it is replaced.
        for (before, after) in [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644)] {
            set(at("out"), before);
            run(folder.path(), "022", &arguments);
            assert_eq!(mode(at("out")), after, "{arguments:?} over {before:o}");
        }
    }
}

#[test]
fn results_without_an_input_file_are_like_any_new_file() {
    let folder = files();
    let server = zstn_tests::round_server::RoundServer::start();
    let bytes = fs::read(folder.path().join("m.safetensors")).unwrap();
    let url = server.add("m.safetensors", zstn_tests::round_server::Page::File(bytes));
    for (umask, bits) in [("022", 0o644), ("077", 0o600), ("027", 0o640)] {
        let _ = fs::remove_file(folder.path().join("out"));
        run(folder.path(), umask, &["pack", &url, "-o", "out"]);
        assert_eq!(mode(folder.path().join("out")), bits, "umask {umask}");
    }
}

#[test]
fn copies_of_a_folder_are_as_they_were() {
    let folder = files();
    let at = |name: &str| folder.path().join(name);
    let tree = [
        ("in", 0o750),
        ("in/sub", 0o700),
        ("in/model.safetensors", 0o600),
        ("in/run.sh", 0o755),
        ("in/config.json", 0o640),
        ("in/sub/notes.txt", 0o444),
    ];
    fs::create_dir_all(at("in/sub")).unwrap();
    fs::copy(at("m.safetensors"), at("in/model.safetensors")).unwrap();
    for name in ["in/run.sh", "in/config.json", "in/sub/notes.txt"] {
        fs::write(at(name), "{}").unwrap();
    }
    for (name, bits) in tree.iter().rev() {
        set(at(name), *bits);
    }
    for umask in ["022", "077"] {
        for out in ["packed", "restored"] {
            let _ = fs::remove_dir_all(at(out));
        }
        run(folder.path(), umask, &["pack", "in", "-o", "packed"]);
        run(
            folder.path(),
            umask,
            &["unpack", "packed", "-o", "restored"],
        );
        for (name, bits) in tree {
            let packed = name.replace("in", "packed").replace("safetensors", "zstn");
            assert_eq!(mode(at(&packed)), bits, "{packed}, umask {umask}");
            let restored = name.replacen("in", "restored", 1);
            assert_eq!(mode(at(&restored)), bits, "{restored}, umask {umask}");
        }
    }
}

#[test]
fn shards_and_indices_are_like_what_they_are_made_from() {
    let folder = files();
    let at = |name: &str| folder.path().join(name);
    set(at("m.safetensors"), 0o600);
    run(
        folder.path(),
        "022",
        &[
            "convert",
            "m.safetensors",
            "split.safetensors.index.json",
            "--shard-size",
            "1K",
        ],
    );
    for entry in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("split") {
            assert_eq!(mode(entry.path()), 0o600, "{}", entry.path().display());
        }
    }
}

/// Other users cannot read a file that is still being written, even where they may read
/// the folder.
#[test]
fn unfinished_results_are_private() {
    let folder = files();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut child = Command::new("sh")
        .args(["-c", "umask 000 && exec \"$0\" pack pipe -o out"])
        .arg(program())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // Opening the pipe waits for the reader, so the output has been created by then or
    // will be soon.
    let bytes = fs::read(folder.path().join("m.safetensors")).unwrap();
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut writer, &bytes[..bytes.len() / 2]).unwrap();
    let unfinished = || {
        let entries = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let mut names = entries.map(|entry| entry.path());
        names.find(|path| path.extension().is_some_and(|end| end == "part"))
    };
    let begun = std::time::Instant::now();
    let found = loop {
        if let Some(path) = unfinished() {
            break path;
        }
        assert!(begun.elapsed().as_secs() < 60, "no output was begun");
        std::thread::yield_now();
    };
    assert_eq!(mode(&found) & 0o077, 0, "{}", found.display());
    std::io::Write::write_all(&mut writer, &bytes[bytes.len() / 2..]).unwrap();
    drop(writer);
    assert!(child.wait().unwrap().success());
}
