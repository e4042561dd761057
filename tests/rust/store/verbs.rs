//! The command line on object stores: every verb and the messages that a user reads,
//! families of checkpoints, plans of `zstn worker`, and `zstn gateway`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;
use zstn::family::{self, FamilyOptions};
use zstn::{Engine, Job, Location, PackOptions};
use zstn_tests::command::text;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, StubHub, plan_of};
use zstn_tests::{checkpoint, sha256};

use crate::bucket::{Bucket, Kind, Machine};

pub fn every_verb_reads_and_writes(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = zstn_tests::many_kinds(3 << 20);
    bucket.put("a/m.safetensors", &original);
    let local = machine.path().join("m.zstn");
    fs::write(machine.path().join("m.safetensors"), &original).unwrap();
    machine.done(&["pack", "m.safetensors"]);
    // Packing in the store gives the same bytes as packing on disk.
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
    // Deltas, with the base in the store.
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
    // Pack by the folder and by the index.
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
    // An input that is refused after part of the work leaves no objects.
    let damaged = names
        .iter()
        .rfind(|name| name.ends_with(".safetensors"))
        .unwrap();
    let shard = machine.read(&format!("plain/{damaged}"));
    bucket.put(&format!("plain/{damaged}"), &shard[..shard.len() - 1]);
    machine.refusal(&["pack", "at:plain/", "-o", "at:none/"]);
    assert_eq!(machine.names("none"), [""; 0]);
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
        "at:m.zstn already exists; use --force to replace it, or choose another name",
    );
    machine.done(&["pack", "at:m.safetensors", "-fo", "at:m.zstn"]);
    refused(
        &["pack", "at:m.safetensors", "-fo", "at:m.safetensors"],
        "at:m.safetensors is being read; write under another name",
    );
    // The refusal does not depend on the spelling of the address or on the command.
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

/// Returns a base, a fine-tune of it, and an unrelated checkpoint.
fn checkpoints() -> [Vec<u8>; 3] {
    let base = Rng(1).bf16_weights(100_000);
    let mut tuned = base.clone();
    let mut rng = Rng(4);
    for byte in &mut tuned {
        *byte ^= u8::from(rng.unit() < 0.02);
    }
    let other = Rng(2).bf16_weights(100_000);
    [base, tuned, other].map(|weights| checkpoint(&[("w", "BF16", &weights)]))
}

#[test]
fn a_family_in_memory_is_compared_by_its_sketches() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Bucket::memory();
    let [base, tuned, other] = checkpoints();
    let engine = Engine::new(2).unwrap();
    let job = Job::new().engine(&engine);
    for (name, file) in [("base", &base), ("other", &other), ("unsketched", &base)] {
        store.put(&format!("models/{name}.safetensors"), file);
        if name != "unsketched" {
            let input = zstn::Input::bytes(name, file.clone());
            let sketch = family::sketch(&job, input, &Default::default()).unwrap();
            store.put(&format!("models/{name}.sketch"), &sketch.to_bytes(&engine));
        }
    }
    store.put("models/deeper/base.safetensors", &base);
    fs::write(at("tuned.safetensors"), &tuned).unwrap();
    let family = Location::url(format!("{}/models/", store.address("").url()));
    let options = FamilyOptions::default();
    let choice = family::choose(&job, at("tuned.safetensors"), family, &options).unwrap();
    let found = choice.base.as_ref().unwrap();
    assert_eq!((&*found.name, choice.compared), ("base.safetensors", 2));
    assert_eq!(choice.left_out[0].0, "unsketched.safetensors");
    assert!(
        choice.left_out[0].1.contains("no sketch"),
        "{:?}",
        choice.left_out
    );
    let packing = choice.add_to(PackOptions::default());
    let report = zstn::pack(&job, at("tuned.safetensors"), at("tuned.z4dm"), &packing);
    assert!(report.unwrap().packed_bytes() < choice.plain.packed_bytes / 2);
}

pub fn a_base_is_found_in_a_bucket(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let [base, tuned, other] = checkpoints();
    bucket.put("models/base.safetensors", &base);
    bucket.put("models/other.safetensors", &other);
    bucket.put("tuned.safetensors", &tuned);
    machine.done(&[
        "pack",
        "at:models/other.safetensors",
        "-o",
        "at:models/other.zstn",
    ]);
    for (input, sketch) in [("base.safetensors", "base"), ("other.zstn", "other")] {
        let (input, sketch) = (
            format!("at:models/{input}"),
            format!("at:models/{sketch}.sketch"),
        );
        machine.done(&["sketch", &input, "-o", &sketch]);
    }
    let line = [
        "pack",
        "at:tuned.safetensors",
        "-o",
        "at:tuned.z4dm",
        "--base",
        "auto",
    ];
    let packed = machine.done(&[&line[..], &["--family", "at:models/"]].concat());
    let said = text(&packed.stderr);
    assert!(
        said.contains("models/base.safetensors; without a base"),
        "{said}"
    );
    let back = ["-o", "back", "--base", "at:models/base.safetensors"];
    machine.done(&[&["unpack", "at:tuned.z4dm"][..], &back].concat());
    assert!(fs::read(machine.path().join("back")).unwrap() == tuned);
    // Without the trailing slash, the address is not a folder.
    let refusal = machine.refusal(&[&line[..], &["--family", "at:models", "-f"]].concat());
    assert!(refusal.contains("ends in a slash"), "{refusal}");
}

/// Runs a share of a plan, and returns the counts of packed, known and refused rows in
/// the last line.
fn counts(machine: &Machine<'_>, hub: &StubHub, shard: &str) -> [u64; 3] {
    let out = machine
        .command(&[
            "worker",
            "--json",
            "--plan",
            "plan.jsonl",
            "--to",
            "at:packed-models",
        ])
        .args(["--shard", shard, "--endpoint", hub.url()])
        .output()
        .unwrap();
    let lines = text(&out.stdout);
    let last = lines.lines().last();
    let last = last.unwrap_or_else(|| panic!("{}", text(&out.stderr)));
    let summary: Value = serde_json::from_str(last).unwrap();
    ["packed", "known", "refused"].map(|name| summary[name].as_u64().unwrap())
}

pub fn a_plan_is_packed_into_a_bucket(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let hub = StubHub::start(Options::default()).unwrap();
    let file = |seed| checkpoint(&[("a", "BF16", &Rng(seed).bf16_weights(40_000))]);
    let (a, b) = (file(1), file(2));
    let files: [(&str, &[u8]); 4] = [
        ("a.safetensors", &a),
        ("again.safetensors", &a),
        ("b.safetensors", &b),
        ("bad.safetensors", b"bad"),
    ];
    let plan = plan_of(&hub, "me/model", &files, machine.path());
    assert!(plan.exists());
    let (one, two) = (counts(&machine, &hub, "0/2"), counts(&machine, &hub, "1/2"));
    assert_eq!((one[0] + two[0], one[2] + two[2]), (2, 1));

    let names = |folder: &str| -> Vec<String> {
        let address = bucket.address(&format!("packed-models/{folder}"));
        let listed = zstn_store::list(&address, &bucket.options()).unwrap();
        listed.iter().map(|object| object.path.clone()).collect()
    };
    assert_eq!(
        (
            names("done").len(),
            names("packed").len(),
            names("failed").len()
        ),
        (2, 2, 1)
    );
    for name in names("packed") {
        let from = format!("at:packed-models/packed/{name}");
        machine.done(&["unpack", &from, "-o", "back.safetensors", "--force"]);
        let back = fs::read(machine.path().join("back.safetensors")).unwrap();
        assert!([sha256(&a), sha256(&b)].contains(&sha256(&back)));
    }
    hub.clear_log();
    // Two of the three known rows have the same contents.
    assert_eq!(counts(&machine, &hub, "0/1"), [0, 3, 1]);
    assert!(hub.log().is_empty());
}

/// Returns the body of the answer to a request.
fn get(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    answer.split_off(end + 4)
}

pub fn a_folder_in_a_store_is_a_hub(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = zstn_tests::many_kinds(3 << 20);
    bucket.put("m.safetensors", &original);
    machine.done(&["pack", "at:m.safetensors", "-o", "at:hub/me/model/m.zstn"]);
    bucket.put("hub/me/model/config.json", b"{}");
    let mut gateway = machine
        .command(&["gateway", "--port", "0", "--upstream", "at:hub"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(gateway.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address = line
        .split("http://")
        .last()
        .unwrap()
        .trim_end()
        .trim_end_matches('/');
    let info = get(address, "/api/models/me/model");
    let info: Value = serde_json::from_slice(&info).unwrap();
    let siblings = info["siblings"].as_array().unwrap().iter();
    let names: Vec<_> = siblings
        .map(|sibling| sibling["rfilename"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["config.json", "m.safetensors"]);
    for revision in ["main", info["sha"].as_str().unwrap()] {
        let path = format!("/me/model/resolve/{revision}");
        assert!(get(address, &format!("{path}/m.safetensors")) == original);
        assert_eq!(get(address, &format!("{path}/config.json")), b"{}");
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}
