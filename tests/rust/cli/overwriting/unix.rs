//! Outputs on Unix: pipes, devices, links and names that only some systems support; an
//! output has the permissions of its input, and replacing a file never widens its
//! permissions.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use zstn::{Engine, Job};
use zstn_tests::command::{program, text, zstn};

use super::{models, run, scratch};
use crate::network_options::files;

#[test]
fn a_pipe_gets_the_bytes_and_stays_a_pipe() {
    let folder = scratch();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            fs::File::open(pipe)
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            bytes
        }
    });
    let unpack = ["unpack", "m.zstn", "-o"];
    let out = run(folder.path(), &unpack, pipe.as_os_str(), false);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let original = fs::read(folder.path().join("m.safetensors")).unwrap();
    assert!(reader.join().unwrap() == original);
    assert!(pipe.metadata().unwrap().file_type().is_fifo());

    // The pipe also works as an input.
    let writer = std::thread::spawn({
        let (pipe, original) = (pipe.clone(), original.clone());
        move || fs::write(pipe, original).unwrap()
    });
    let out = zstn(folder.path(), &["pack", "pipe", "-o", "again.zstn"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    writer.join().unwrap();
    let at = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(at("again.zstn") == at("m.zstn"));
}

#[test]
fn devices_are_written_to_and_sockets_refused() {
    let folder = scratch();
    // A separate null device: if a bug replaced it with a file, the rest of the machine
    // would not be affected.
    let null = folder.path().join("null");
    let made = Command::new("mknod")
        .arg(&null)
        .args(["c", "1", "3"])
        .stderr(Stdio::null())
        .status();
    if made.is_ok_and(|status| status.success()) {
        let unpack = ["unpack", "m.zstn", "-o"];
        let out = run(folder.path(), &unpack, null.as_os_str(), false);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(null.metadata().unwrap().file_type().is_char_device());
    }
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for force in [false, true] {
        let out = run(
            folder.path(),
            &["unpack", "m.zstn", "-o"],
            socket.as_os_str(),
            force,
        );
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(socket.metadata().unwrap().file_type().is_socket());
    }
    for (arguments, sentence) in [
        (["ls", "socket"], "socket is a socket, not a file"),
        (["ls", "."], "contains"),
    ] {
        let error = text(&zstn(folder.path(), &arguments).stderr);
        assert!(error.contains(sentence), "{error}");
    }
}

#[test]
fn a_link_means_what_it_leads_to() {
    let folder = scratch();
    let folder = folder.path();
    fs::create_dir(folder.join("disk")).unwrap();
    let original = fs::read(folder.join("m.safetensors")).unwrap();
    // One link points to a file, the other through a second link to a file that does
    // not exist.
    fs::write(folder.join("disk/old"), b"old").unwrap();
    symlink("disk/old", folder.join("link")).unwrap();
    symlink("disk/hop", folder.join("dangling")).unwrap();
    symlink("new", folder.join("disk/hop")).unwrap();
    let unpack = ["unpack", "m.zstn", "-o"];
    let out = run(folder, &unpack, "link".as_ref(), false);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    for (link, file) in [("link", "disk/old"), ("dangling", "disk/new")] {
        let out = run(folder, &unpack, link.as_ref(), true);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(folder.join(link).is_symlink(), "{link} stays a link");
        assert!(!folder.join(file).is_symlink());
        assert!(fs::read(folder.join(file)).unwrap() == original);
    }
    symlink("loop", folder.join("loop")).unwrap();
    let out = run(folder, &unpack, "loop".as_ref(), true);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
}

#[test]
fn names_that_are_not_unicode_work_everywhere() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join(OsStr::from_bytes(b"f\xff"));
    fs::create_dir(&folder).unwrap();
    models(&folder);
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let odd = name(b"\xe9.safetensors");
    fs::rename(folder.join("m.safetensors"), folder.join(odd)).unwrap();
    let original = fs::read(folder.join(odd)).unwrap();
    let run = |arguments: &[&OsStr]| {
        let mut command = Command::new(program());
        let out = command.args(arguments).current_dir(&folder);
        let out = out.stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
    };
    let word = OsStr::new;
    run(&[word("pack"), odd]);
    run(&[word("ls"), name(b"\xe9.zstn")]);
    run(&[word("get"), name(b"\xe9.zstn"), word("w")]);
    run(&[word("info"), name(b"\xe9.zstn"), word("--json")]);
    let against = [word("verify"), name(b"\xe9.zstn"), word("--against"), odd];
    run(&against);
    run(&[word("unpack"), name(b"\xe9.zstn"), word("-o"), word("back")]);
    assert!(fs::read(folder.join("back")).unwrap() == original);
    run(&[word("convert"), name(b"\xe9.zstn"), name(b"\xfe.zt")]);
    assert!(folder.join(name(b"\xfe.zt")).is_file());
    run(&[word("compress"), odd]);
    run(&[
        word("decompress"),
        name(b"\xe9.safetensors.z4ai"),
        word("-o"),
        word("again"),
    ]);
    assert!(fs::read(folder.join("again")).unwrap() == original);
    let tuned = [word("unpack"), word("tuned.z4dm"), word("--base"), odd];
    run(&[&tuned[..], &[word("-o"), word("restored")]].concat());
    // A folder, and the output name derived from it.
    let model = outer.path().join(name(b"\xe8"));
    fs::create_dir(&model).unwrap();
    fs::copy(folder.join(odd), model.join("model.safetensors")).unwrap();
    run(&[word("pack"), model.as_os_str()]);
    let packed = outer.path().join(name(b"\xe8-zstn"));
    assert!(packed.join("model.zstn").is_file());
    // The library accepts the same paths.
    let job = Job::new().engine(&Engine::new(1).unwrap());
    let (input, output) = (folder.join(name(b"\xe9.zstn")), folder.join("library"));
    zstn::unpack(&job, &input, &output, &zstn::UnpackOptions::default()).unwrap();
    assert!(fs::read(output).unwrap() == original);
}

#[test]
fn a_name_as_long_as_names_may_be() {
    let folder = scratch();
    let name = format!("{}.zstn", "n".repeat(250));
    let out = run(
        folder.path(),
        &["pack", "m.safetensors", "-o"],
        name.as_ref(),
        false,
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(folder.path().join(name).is_file());
}

/// Runs `zstn` with a umask.
fn run_with_umask(folder: &Path, umask: &str, arguments: &[&str]) {
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
            run_with_umask(folder.path(), umask, &arguments);
            assert_eq!(mode(at("out")), bits, "{arguments:?}, umask {umask}");
        }
        set(at(input), 0o644);
        // A private file stays private when it is replaced.
        for (before, after) in [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644)] {
            set(at("out"), before);
            run_with_umask(folder.path(), "022", &arguments);
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
        run_with_umask(folder.path(), umask, &["pack", &url, "-o", "out"]);
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
        run_with_umask(folder.path(), umask, &["pack", "in", "-o", "packed"]);
        run_with_umask(
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
    run_with_umask(
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
