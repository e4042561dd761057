//! Pipes, devices, links, and names that only some systems support.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};

use zstn::{Engine, Job};
use zstn_tests::command::{program, text, zstn};

use super::{models, run, scratch};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};

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
