//! The command line on object stores, with the sentences that a person reads.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use zstn_store::{Object, list};
use zstn_tests::command::{json, program, text};
use zstn_tests::rng::Rng;
use zstn_tests::store_proxy::{Action, Proxy, Request};

use crate::answers::s3_error;
use crate::bucket::{Bucket, Kind};

/// A person's machine, with an account at a store.
struct Machine<'a> {
    bucket: &'a Bucket,
    folder: TempDir,
}

impl<'a> Machine<'a> {
    fn new(bucket: &'a Bucket) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { bucket, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `zstn` with the account's variables and no others.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments.iter().map(|argument| self.address(argument)))
            .current_dir(self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(self.bucket.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("zstn runs")
    }

    /// The sentence of an error, without the address of the bucket.
    fn refusal(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(!out.status.success(), "{arguments:?} succeeds");
        let said = text(&out.stderr).replace(&self.address("at:"), "at:");
        said.trim_end().to_owned()
    }

    /// Replaces `at:` by the address of the bucket.
    fn address(&self, argument: &str) -> String {
        match argument.strip_prefix("at:") {
            Some(name) => format!("{}/{name}", self.bucket.address("").url()),
            None => argument.into(),
        }
    }

    fn done(&self, arguments: &[&str]) -> Output {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        out
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let object = Object::open(&self.bucket.address(name), &self.bucket.options()).unwrap();
        object.read(0..object.len_bytes()).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let listed = list(&self.bucket.address(folder), &self.bucket.options()).unwrap();
        listed.into_iter().map(|object| object.path).collect()
    }
}

pub fn every_verb_reads_and_writes(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = zstn_tests::many_kinds(3 << 20);
    bucket.put("a/m.safetensors", &original);
    let local = machine.path().join("m.zstn");
    fs::write(machine.path().join("m.safetensors"), &original).unwrap();
    machine.done(&["pack", "m.safetensors"]);
    // The same bytes as on disk.
    machine.done(&["pack", "at:a/m.safetensors", "-o", "at:a/m.zstn"]);
    assert!(machine.read("a/m.zstn") == fs::read(&local).unwrap());
    let listed = machine.done(&["ls", "at:a/m.zstn"]);
    assert_eq!(listed.stdout, machine.done(&["ls", "m.zstn"]).stdout);
    let rows = ["--rows", "100..200"];
    let get = |model| machine.done(&[&["get", model, "sparse"][..], &rows].concat());
    assert_eq!(get("at:a/m.zstn").stdout, get("m.zstn").stdout);
    machine.done(&["get", "at:a/m.zstn", "odd", "-o", "at:a/odd.npy"]);
    machine.done(&["get", "m.zstn", "odd", "-o", "odd.npy"]);
    assert!(machine.read("a/odd.npy") == fs::read(machine.path().join("odd.npy")).unwrap());
    let against = ["--against", "at:a/m.safetensors"];
    machine.done(&[&["verify", "at:a/m.zstn"][..], &against].concat());
    machine.done(&["unpack", "at:a/m.zstn", "-o", "at:a/back.safetensors"]);
    assert!(machine.read("a/back.safetensors") == original);
    machine.done(&["convert", "at:a/m.zstn", "at:a/m.zt"]);
    machine.done(&["convert", "m.zstn", "m.zt"]);
    assert!(machine.read("a/m.zt") == fs::read(machine.path().join("m.zt")).unwrap());
    machine.done(&["compress", "at:a/odd.npy", "-o", "at:a/odd.z4ai"]);
    machine.done(&["decompress", "at:a/odd.z4ai", "-o", "at:a/odd.again"]);
    assert!(machine.read("a/odd.again") == machine.read("a/odd.npy"));
    // Differences, with the base in the store.
    let mut tuned = original;
    let last = tuned.len() - 1;
    tuned[last] ^= 1;
    bucket.put("a/tuned.safetensors", &tuned);
    let base = ["--base", "at:a/m.zstn"];
    machine.done(
        &[
            &["pack", "at:a/tuned.safetensors", "-o", "at:a/tuned.z4dm"][..],
            &base,
        ]
        .concat(),
    );
    machine.done(
        &[
            &["unpack", "at:a/tuned.z4dm", "-o", "at:a/tuned.again"][..],
            &base,
        ]
        .concat(),
    );
    assert!(machine.read("a/tuned.again") == tuned);
}

pub fn folders_come_with_their_index_last(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    bucket.put("m.safetensors", &zstn_tests::many_kinds(3 << 20));
    let index = "at:plain/model.safetensors.index.json";
    machine.done(&["convert", "at:m.safetensors", index, "--shard-size", "1M"]);
    bucket.put("plain/config.json", b"{}");
    let names = machine.names("plain");
    assert!(names.len() > 4, "{names:?}");
    // By the folder and by the index.
    machine.done(&["pack", "at:plain/", "-o", "at:packed/"]);
    machine.done(&["pack", index, "-o", "at:same"]);
    let packed = machine.names("packed");
    assert_eq!(packed.len(), names.len());
    assert_eq!(packed, machine.names("same"));
    machine.done(&["verify", "at:packed/", "--against", "at:plain/"]);
    machine.done(&["unpack", "at:packed/", "-o", "at:back/"]);
    for name in &names {
        let read = |folder: &str| machine.read(&format!("{folder}/{name}"));
        assert!(read("back") == read("plain"), "{name}");
    }
    // A folder that is not empty is never replaced, with or without an index.
    let refused = |output: &str, found: &str| {
        let refusal = machine.refusal(&["pack", "at:plain/", "-o", output]);
        assert!(refusal.contains("not empty"), "{refusal}");
        assert!(refusal.contains(found), "{refusal}");
    };
    refused("at:packed/", "config.json");
    bucket.put("half/config.json", b"somebody else's");
    refused("at:half/", "config.json");
    assert!(machine.read("half/config.json") == b"somebody else's");
    // An input that is refused half way leaves nothing.
    let damaged = names
        .iter()
        .rfind(|name| name.ends_with(".safetensors"))
        .unwrap();
    let shard = machine.read(&format!("plain/{damaged}"));
    bucket.put(&format!("plain/{damaged}"), &shard[..shard.len() - 1]);
    machine.refusal(&["pack", "at:plain/", "-o", "at:none/"]);
    assert_eq!(machine.names("none"), [""; 0]);
}

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
    // Somebody else may not go on with it.
    let other = Machine::new(&through);
    let refusal = other.refusal(&pack);
    assert!(refusal.contains("another attempt"), "{refusal}");
    is_cut.store(false, Relaxed);
    machine.done(&pack);
    machine.done(&["verify", "at:packed/", "--against", "at:plain/"]);
    let unfinished = |name: &String| name.contains("unfinished");
    assert!(!machine.names("packed").iter().any(unfinished));
}

pub fn refusals_are_one_sentence(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    bucket.put("m.safetensors", &zstn_tests::many_kinds(1 << 20));
    let refused = |arguments: &[&str], sentence: &str| {
        assert_eq!(
            machine.refusal(arguments),
            format!("error: {sentence}"),
            "{arguments:?}"
        );
    };
    refused(
        &["ls", "at:nothing.zstn"],
        "at:nothing.zstn: there is no such object; check the address",
    );
    machine.done(&["pack", "at:m.safetensors", "-o", "at:m.zstn"]);
    refused(
        &["pack", "at:m.safetensors", "-o", "at:m.zstn"],
        "at:m.zstn exists already; use --force to replace it, or choose another name",
    );
    machine.done(&["pack", "at:m.safetensors", "-fo", "at:m.zstn"]);
    refused(
        &["pack", "at:m.safetensors", "-fo", "at:m.safetensors"],
        "at:m.safetensors is being read; write under another name",
    );
    // However it is spelled, and whatever verb would replace it.
    if bucket.kind == Kind::S3 {
        let address = machine.address("at:m.zstn").replacen("s3:", "S3A:", 1);
        for verb in ["unpack", "convert"] {
            let refusal = machine.refusal(
                &[verb, "at:m.zstn", "-fo", &address, "--to", "zstn"]
                    [..if verb == "unpack" { 4 } else { 6 }],
            );
            assert!(refusal.contains("is being read"), "{refusal}");
        }
    }
    let nobody = Bucket {
        environment: Vec::new(),
        ..Bucket::existing(bucket.kind, &bucket.name, &bucket.server)
    };
    let nobody = Machine::new(&nobody);
    let refusal = nobody.refusal(&["ls", "at:m.zstn"]);
    assert!(
        refusal.contains("at:m.zstn: there are no credentials for this store; set "),
        "{refusal}"
    );
    let elsewhere = bucket.with_name("no-such-bucket-anywhere");
    let elsewhere = Machine::new(&elsewhere);
    let refusal = elsewhere.refusal(&["pack", "at:m.safetensors"]);
    assert!(
        refusal.contains("there is no bucket or container `no-such-bucket-anywhere`"),
        "{refusal}"
    );
}

/// Bytes that stay as long when they are packed.
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

/// A way to `bucket` on which no more parts arrive than `allowed`.
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
    // Parts of 16 MiB.
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
    // Those that were held have lost their sender.
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
    // Cut off where half of it has been packed and sent.
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
    // Another object of the same length, after the first answer.
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
    // A writer that creates the object while it is uploaded.
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
        let expected = "at:big.zstn exists already: another writer was first, and this result is \
                        discarded";
        assert!(refusal.contains(expected), "{refusal}");
        assert!(local.read("big.zstn") == b"somebody else's");
        assert_eq!(bucket.unfinished_uploads(), 0);
    }
}
