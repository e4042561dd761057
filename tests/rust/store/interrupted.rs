//! Runs of the command line that are interrupted or meet other writers, and a process
//! that uploads and can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs};

use zstn_store::{Object, Upload, read_small};
use zstn_tests::command::{json, text};
use zstn_tests::rng::Rng;
use zstn_tests::store_proxy::{Action, Proxy, Request};

use crate::answers::s3_error;
use crate::bucket::{Bucket, Kind, Machine, content};

pub fn a_folder_that_was_cut_off_is_continued(bucket: &Bucket) {
    let is_cut = Arc::new(AtomicBool::new(true));
    let cut = Arc::clone(&is_cut);
    let line = Proxy::start(&bucket.server, move |request| {
        let is_index = request.method == "PUT" && request.target.contains(".index.json");
        match is_index && cut.load(Relaxed) {
            true => Action::Answer(s3_error("403 Forbidden", "AccessDenied")),
            false => Action::Forward,
        }
    });
    let through = bucket.through(&line);
    let machine = Machine::new(&through);
    bucket.put("m.safetensors", &zstn_tests::many_kinds(3 << 20));
    is_cut.store(false, Relaxed);
    let index = "at:plain/model.safetensors.index.json";
    machine.done(&["convert", "at:m.safetensors", index, "--shard-size", "1M"]);
    is_cut.store(true, Relaxed);
    let pack = ["pack", "at:plain/", "-o", "at:packed/"];
    let refusal = machine.refusal(&pack);
    assert!(refusal.contains("access is denied"), "{refusal}");
    let left = machine.names("packed");
    assert!(
        left.len() > 2 && !left.iter().any(|name| name.ends_with(".index.json")),
        "{left:?}"
    );
    // Another machine must not continue this attempt.
    let other = Machine::new(&through);
    let refusal = other.refusal(&pack);
    assert!(refusal.contains("another attempt"), "{refusal}");
    is_cut.store(false, Relaxed);
    machine.done(&pack);
    machine.done(&["verify", "at:packed/", "--against", "at:plain/"]);
    let unfinished = |name: &String| name.contains("unfinished");
    assert!(!machine.names("packed").iter().any(unfinished));
}

/// Returns a checkpoint that does not become smaller when packed.
fn incompressible(len_bytes: usize) -> Vec<u8> {
    let bytes = Rng(8).bytes(len_bytes / 8);
    let parts: Vec<Vec<u8>> = (0..8u8)
        .map(|n| bytes.iter().map(|b| b ^ n).collect())
        .collect();
    let names: Vec<String> = (0..8).map(|number| format!("part.{number}")).collect();
    let tensors: Vec<_> = names
        .iter()
        .zip(&parts)
        .map(|(name, bytes)| (name.as_str(), "U8", bytes.as_slice()))
        .collect();
    zstn_tests::checkpoint(&tensors)
}

/// Starts a proxy to `bucket` that lets `allowed` parts through and holds further ones.
fn line(bucket: &Bucket, allowed: &Arc<AtomicUsize>) -> Proxy {
    let allowed = Arc::clone(allowed);
    Proxy::start(&bucket.server, move |request| {
        let take = |left: usize| left.checked_sub(1);
        let is_held = |_| allowed.fetch_update(Relaxed, Relaxed, take).is_err();
        while request.sends_part() && is_held(()) {
            sleep(Duration::from_millis(20));
        }
        Action::Forward
    })
}

pub fn a_killed_pack_is_continued(bucket: &Bucket) {
    const PARTS: usize = 8;
    const STORED: usize = 3;
    let allowed = Arc::new(AtomicUsize::new(STORED));
    let line = line(bucket, &allowed);
    let through = bucket.through(&line);
    let machine = Machine::new(&through);
    // Parts have 16 MiB.
    let original = incompressible((PARTS << 24) - (1 << 20));
    fs::write(machine.path().join("m.safetensors"), &original).unwrap();
    let arguments = ["pack", "m.safetensors", "-o", "at:m.zstn", "--json"];
    let mut killed = machine.command(&arguments);
    let mut killed = killed.stdout(Stdio::null()).spawn().unwrap();
    let stored = || {
        let journals = fs::read_dir(machine.path().join("state/zstn/uploads")).ok()?;
        let mut journals = journals.flatten().map(|entry| entry.path());
        let journal = journals.find(|path| path.extension().is_some_and(|e| e == "journal"))?;
        Some(
            fs::read_to_string(journal)
                .ok()?
                .matches("\"blake3\"")
                .count(),
        )
    };
    while stored().unwrap_or(0) < STORED || line.count(Request::sends_part) <= STORED {
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
        sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(Object::open(&bucket.address("m.zstn"), &bucket.options()).is_err());
    // The client that sent the held parts has been killed.
    let before = line.count(Request::sends_part);
    allowed.store(usize::MAX, Relaxed);
    let out = machine.done(&arguments);
    let upload = &json(&out)["files"][0]["upload"];
    assert_eq!(upload["parts_reused"], STORED, "{upload}");
    assert_eq!(upload["parts_sent"], PARTS - STORED, "{upload}");
    assert_eq!(line.count(Request::sends_part) - before, PARTS - STORED);
    machine.done(&["verify", "at:m.zstn", "--against", "m.safetensors"]);
    let state = fs::read_dir(machine.path().join("state/zstn/uploads")).unwrap();
    assert_eq!(state.count(), 0, "the journal is gone");
}

pub fn a_refused_input_leaves_no_parts(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = incompressible(40 << 20);
    // The input ends early, after most of it has been packed and sent.
    let mut cat = Command::new("cat");
    let file = machine.path().join("short");
    fs::write(&file, &original[..original.len() - 1]).unwrap();
    let mut cut = cat.arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let mut pack = machine.command(&["pack", "-", "-o", "at:m.zstn"]);
    let out = pack.stdin(cut.stdout.take().unwrap()).output().unwrap();
    cut.wait().unwrap();
    let said = text(&out.stderr);
    assert!(
        !out.status.success() && said.contains("it was cut off"),
        "{said}"
    );
    assert_eq!(bucket.unfinished_uploads(), 0);
    assert_eq!(machine.names(""), [""; 0]);
}

pub fn objects_that_change_and_writers_that_lose_are_told(bucket: &Bucket) {
    let first = zstn_tests::many_kinds(3 << 20);
    let local = Machine::new(bucket);
    fs::write(local.path().join("m.safetensors"), &first).unwrap();
    local.done(&["pack", "m.safetensors", "-o", "at:m.zstn"]);
    let packed = local.read("m.zstn");
    // The object is replaced by another one of the same length after the first answer.
    let mut other = packed.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    let answers = AtomicUsize::new(0);
    let (plain, replaced) = (bucket.with_name(&bucket.name), other);
    let line = Proxy::start(&bucket.server, move |request| {
        if request.method == "GET" && answers.fetch_add(1, Relaxed) == 1 {
            plain.put("m.zstn", &replaced);
        }
        Action::Forward
    });
    let through = bucket.through(&line);
    let machine = Machine::new(&through);
    let refusal = machine.refusal(&["get", "at:m.zstn", "big", "-o", "big.bin"]);
    assert!(
        refusal.contains("the file has changed since it was opened"),
        "{refusal}"
    );
    assert!(!machine.path().join("big.bin").exists());
    // Another writer creates the object during the upload.
    let plain = bucket.with_name(&bucket.name);
    let line = Proxy::start(&bucket.server, move |request| {
        if request.completes() {
            plain.put("big.zstn", b"somebody else's");
        }
        Action::Forward
    });
    let through = bucket.through(&line);
    let machine = Machine::new(&through);
    fs::write(
        machine.path().join("big.safetensors"),
        incompressible(40 << 20),
    )
    .unwrap();
    let arguments = ["pack", "big.safetensors", "-o", "at:big.zstn"];
    if bucket.kind == Kind::S3 {
        let refusal = machine.refusal(&arguments);
        let expected = "at:big.zstn already exists: another writer was first, and this result is \
                        discarded";
        assert!(refusal.contains(expected), "{refusal}");
        assert!(local.read("big.zstn") == b"somebody else's");
        assert_eq!(bucket.unfinished_uploads(), 0);
    }
}

const VARIABLE: &str = "ZSTN_TEST_UPLOAD";

/// Starts a process that uploads `content(len)`, one part at a time.
pub fn upload(bucket: &Bucket, name: &str, folder: &Path, len: usize) -> Child {
    let mut child = Command::new(env::current_exe().expect("this program"));
    child
        .args(["--exact", "interrupted::an_upload_in_a_process_of_its_own"])
        .env(
            VARIABLE,
            format!("{:?} {} {name} {len}", bucket.kind, bucket.name),
        )
        .env(format!("{VARIABLE}_SERVER"), &bucket.server)
        .env(format!("{VARIABLE}_JOURNAL"), folder)
        .stdout(Stdio::null());
    child.spawn().expect("a process")
}

/// The main function of that process. In a normal test run, it uploads to memory.
#[test]
fn an_upload_in_a_process_of_its_own() {
    let task = env::var(VARIABLE).unwrap_or_else(|_| "Memory own-process name 1000".into());
    let words: Vec<&str> = task.split(' ').collect();
    let [kind, container, name, len] = words[..] else {
        panic!("{task}");
    };
    let kind = match kind {
        "S3" => Kind::S3,
        "Azure" => Kind::Azure,
        _ => Kind::Memory,
    };
    let server = env::var(format!("{VARIABLE}_SERVER")).unwrap_or_default();
    let bucket = Bucket::existing(kind, container, &server);
    let mut options = bucket.upload_options();
    options.journal_folder = env::var_os(format!("{VARIABLE}_JOURNAL")).map(Into::into);
    options.parts_at_once = 1;
    let bytes = content(len.parse().unwrap());
    let address = bucket.address(name);
    let mut upload = Upload::begin(&address, &options).unwrap();
    upload.write(&bytes).unwrap();
    upload.finish().unwrap();
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == bytes);
}
